//! Trait of the types that a field can have, and its implementation for Kafka's primitives and arrays.
//!
//! Not obvious: the functions here are inlined always. With a plain `inline`, the compiler sometimes passes each number
//! through a `Result` in memory, and encoding takes 40 % longer.

use std::borrow::Cow;

use crate::error::WireError;
use crate::primitives::{Reader, writer};

/// Form of a value on the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// Version of the message.
    pub(crate) version: i16,
    /// Whether lengths are compact and structs end with tagged fields (KIP-482).
    pub(crate) flexible: bool,
    /// Whether an `Option` can be null. Ignored by all other types.
    pub(crate) nullable: bool,
}

/// Value of a field. Strings and bytes borrow from the input for `'a`.
pub(crate) trait Value<'a>: Sized {
    /// The type with owned strings and bytes.
    type Owned;

    /// Reads a value.
    fn read(form: Form, r: &mut Reader<'a>) -> Result<Self, WireError>;

    /// Appends the value.
    fn write(&self, form: Form, out: &mut Vec<u8>) -> Result<(), WireError>;

    /// Returns the minimum bytes of a value. Arrays reserve memory for no more elements than the unread bytes can hold.
    fn min_size(form: Form) -> usize;

    /// Copies strings and bytes that are borrowed.
    fn into_owned(self) -> Self::Owned;

    /// Returns whether the value is null.
    #[inline(always)]
    fn is_null(&self) -> bool {
        false
    }
}

/// Returns whether a value differs from its default.
#[inline(always)]
pub(crate) fn differs<T: PartialEq>(value: &T, default: T) -> bool {
    *value != default
}

macro_rules! fixed {
    ($($type:ty: $bytes:literal $read:ident $write:ident;)*) => {$(
        impl<'a> Value<'a> for $type {
            type Owned = Self;

            #[inline(always)]
            fn read(_: Form, r: &mut Reader<'a>) -> Result<Self, WireError> {
                r.$read()
            }

            #[inline(always)]
            fn write(&self, _: Form, out: &mut Vec<u8>) -> Result<(), WireError> {
                writer::$write(out, *self);
                Ok(())
            }

            #[inline(always)]
            fn min_size(_: Form) -> usize {
                $bytes
            }

            #[inline(always)]
            fn into_owned(self) -> Self {
                self
            }
        }
    )*};
}

fixed! {
    bool: 1 bool put_bool;
    i8: 1 i8 put_i8;
    i16: 2 i16 put_i16;
    u16: 2 u16 put_u16;
    i32: 4 i32 put_i32;
    u32: 4 u32 put_u32;
    i64: 8 i64 put_i64;
    u128: 16 uuid put_uuid;
}

/// Implements [`Value`] for a borrowed type and for its nullable form. Both write through the nullable function.
macro_rules! borrowed {
    ($($type:ty: $classic_len:literal $read:ident $read_nullable:ident $write:ident;)*) => {$(
        impl<'a> Value<'a> for Cow<'a, $type> {
            type Owned = Cow<'static, $type>;

            #[inline(always)]
            fn read(form: Form, r: &mut Reader<'a>) -> Result<Self, WireError> {
                r.$read(form.flexible)
            }

            #[inline(always)]
            fn write(&self, form: Form, out: &mut Vec<u8>) -> Result<(), WireError> {
                writer::$write(out, form.flexible, Some(self))
            }

            #[inline(always)]
            fn min_size(form: Form) -> usize {
                if form.flexible { 1 } else { $classic_len }
            }

            #[inline(always)]
            fn into_owned(self) -> Cow<'static, $type> {
                Cow::Owned(self.into_owned())
            }
        }

        impl<'a> Value<'a> for Option<Cow<'a, $type>> {
            type Owned = Option<Cow<'static, $type>>;

            #[inline(always)]
            fn read(form: Form, r: &mut Reader<'a>) -> Result<Self, WireError> {
                if form.nullable { r.$read_nullable(form.flexible) } else { r.$read(form.flexible).map(Some) }
            }

            #[inline(always)]
            fn write(&self, form: Form, out: &mut Vec<u8>) -> Result<(), WireError> {
                writer::$write(out, form.flexible, self.as_deref())
            }

            #[inline(always)]
            fn min_size(form: Form) -> usize {
                Cow::<'a, $type>::min_size(form)
            }

            #[inline(always)]
            fn into_owned(self) -> Self::Owned {
                self.map(Value::into_owned)
            }

            #[inline(always)]
            fn is_null(&self) -> bool {
                self.is_none()
            }
        }
    )*};
}

borrowed! {
    str: 2 cow_str nullable_cow_str put_nullable_str;
    [u8]: 4 cow_bytes nullable_cow_bytes put_nullable_bytes;
}

impl<'a, T: Value<'a>> Value<'a> for Vec<T> {
    type Owned = Vec<T::Owned>;

    #[inline(always)]
    fn read(form: Form, r: &mut Reader<'a>) -> Result<Self, WireError> {
        r.array(form.flexible, T::min_size(form), |r| T::read(form, r))
    }

    #[inline(always)]
    fn write(&self, form: Form, out: &mut Vec<u8>) -> Result<(), WireError> {
        writer::put_array_len(out, form.flexible, Some(self.len()))?;
        for element in self {
            element.write(form, out)?;
        }
        Ok(())
    }

    #[inline(always)]
    fn min_size(form: Form) -> usize {
        if form.flexible { 1 } else { 4 }
    }

    #[inline(always)]
    fn into_owned(self) -> Self::Owned {
        self.into_iter().map(T::into_owned).collect()
    }
}

impl<'a, T: Value<'a>> Value<'a> for Option<Vec<T>> {
    type Owned = Option<Vec<T::Owned>>;

    #[inline(always)]
    fn read(form: Form, r: &mut Reader<'a>) -> Result<Self, WireError> {
        if form.nullable {
            r.nullable_array(form.flexible, T::min_size(form), |r| T::read(form, r))
        } else {
            Vec::read(form, r).map(Some)
        }
    }

    #[inline(always)]
    fn write(&self, form: Form, out: &mut Vec<u8>) -> Result<(), WireError> {
        match self {
            Some(elements) => elements.write(form, out),
            None => writer::put_array_len(out, form.flexible, None),
        }
    }

    #[inline(always)]
    fn min_size(form: Form) -> usize {
        Vec::<T>::min_size(form)
    }

    #[inline(always)]
    fn into_owned(self) -> Self::Owned {
        self.map(Value::into_owned)
    }

    #[inline(always)]
    fn is_null(&self) -> bool {
        self.is_none()
    }
}
