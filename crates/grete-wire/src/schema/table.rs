//! Macros that turn a table into structs with their codec.
//!
//! Not obvious: `inline` on the functions of a struct keeps them private to a unit of compilation. A struct is mostly
//! used in one place, and there the compiler inlines it.

/// Declares structs, one row per field: `name: type = default, modifiers;`. Without a default, the type's default
/// applies. The modifiers are methods of [`FieldRule`](super::FieldRule); rows of tagged fields are in the order of
/// their tags.
macro_rules! structs {
    ($(
        $(#[$attribute:meta])*
        struct $name:ident $(<$lifetime:lifetime>)? {
            $(
                $(#[$doc:meta])*
                $field:ident: $type:ty $(= $default:expr)? $(, $modifier:ident $($value:literal)?)*;
            )*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name $(<$lifetime>)? {
            $(
                $(#[$doc])*
                $(#[doc = concat!("- ", stringify!($modifier $($value)?))])*
                pub $field: $type,
            )*
        }

        impl $(<$lifetime>)? Default for $name $(<$lifetime>)? {
            fn default() -> Self {
                Self { $($field: $crate::schema::default_value!($($default)?),)* }
            }
        }

        impl $(<$lifetime>)? $name $(<$lifetime>)? {
            /// Copies all borrowed strings and bytes.
            #[must_use]
            pub fn into_owned(self) -> $crate::schema::owned_type!($name $($lifetime)?) {
                $name { $($field: $crate::schema::Value::into_owned(self.$field),)* }
            }
        }

        impl<'a> $crate::schema::Value<'a> for $name $(<$lifetime>)? {
            type Owned = $crate::schema::owned_type!($name $($lifetime)?);

            #[inline]
            fn read(
                form: $crate::schema::Form,
                r: &mut $crate::primitives::Reader<'a>,
            ) -> Result<Self, $crate::error::WireError> {
                let mut this = Self::default();
                $(
                    let rule = $crate::schema::rule!($($modifier $($value)?),*);
                    if rule.is_inline(form.version) {
                        this.$field = $crate::schema::Value::read(rule.form(form), r)?;
                    }
                )*
                if form.flexible {
                    r.tags(|_tag, _r| {
                        $(
                            let rule = $crate::schema::rule!($($modifier $($value)?),*);
                            if rule.has_tag(_tag, form.version) {
                                this.$field = $crate::schema::Value::read(rule.form(form), _r)?;
                            }
                        )*
                        Ok(())
                    })?;
                }
                Ok(this)
            }

            #[inline]
            fn write(&self, form: $crate::schema::Form, out: &mut Vec<u8>) -> Result<(), $crate::error::WireError> {
                use $crate::error::WireError;
                let _tagged = 0;
                $(
                    let rule = $crate::schema::rule!($($modifier $($value)?),*);
                    let form_of_field = rule.form(form);
                    if rule.must_be_default(form.version)
                        && $crate::schema::differs(&self.$field, $crate::schema::default_value!($($default)?))
                    {
                        let (name, field) = (stringify!($name), stringify!($field));
                        return Err(WireError::unsupported_field(name, field, form.version));
                    }
                    if rule.exists(form.version)
                        && !form_of_field.nullable
                        && $crate::schema::Value::is_null(&self.$field)
                    {
                        let (name, field) = (stringify!($name), stringify!($field));
                        return Err(WireError::unexpected_null(name, field, form.version));
                    }
                    if rule.is_inline(form.version) {
                        $crate::schema::Value::write(&self.$field, form_of_field, out)?;
                    }
                    // A tagged field with the default value is left out.
                    let $field = rule.is_tagged(form.version)
                        && $crate::schema::differs(&self.$field, $crate::schema::default_value!($($default)?));
                    let _tagged = _tagged + u32::from($field);
                )*
                if form.flexible {
                    $crate::primitives::writer::put_uvarint(out, _tagged);
                    $(
                        if $field {
                            let rule = $crate::schema::rule!($($modifier $($value)?),*);
                            $crate::primitives::writer::put_tag(out, rule.tag_number(), |out| {
                                $crate::schema::Value::write(&self.$field, rule.form(form), out)
                            })?;
                        }
                    )*
                }
                Ok(())
            }

            #[inline]
            fn min_size(form: $crate::schema::Form) -> usize {
                let _bytes = usize::from(form.flexible);
                $(
                    let rule = $crate::schema::rule!($($modifier $($value)?),*);
                    let _bytes = match rule.is_inline(form.version) {
                        true => _bytes + <$type as $crate::schema::Value<'_>>::min_size(rule.form(form)),
                        false => _bytes,
                    };
                )*
                _bytes
            }

            fn into_owned(self) -> Self::Owned {
                Self::into_owned(self)
            }
        }
    )*};
}

/// Returns the [`FieldRule`](super::FieldRule) of a row's modifiers, as a constant.
macro_rules! rule {
    ($($modifier:ident $($value:literal)?),*) => {
        const { $crate::schema::FieldRule::PLAIN $(.$modifier($($value)?))* }
    };
}

/// Returns the default value of a row.
macro_rules! default_value {
    () => {
        Default::default()
    };
    ($default:expr) => {
        $default
    };
}

/// Returns the type of a struct that borrows nothing.
macro_rules! owned_type {
    ($name:ident) => {
        $name
    };
    ($name:ident $lifetime:lifetime) => {
        $name<'static>
    };
}

/// Makes a struct a message: `Name<'a>: versions 0..=13, flexible 9`. A message that is never flexible has no
/// `flexible`.
macro_rules! message {
    ($name:ident $(<$lifetime:lifetime>)?: versions $versions:expr) => {
        $crate::schema::message!($name $(<$lifetime>)?: versions $versions, flexible i16::MAX);
    };
    ($name:ident: versions $versions:expr, flexible $flexible_from:expr) => {
        $crate::schema::message!(@codec [] '_ $name $versions, $flexible_from);
    };
    ($name:ident<$lifetime:lifetime>: versions $versions:expr, flexible $flexible_from:expr) => {
        $crate::schema::message!(@codec [<$lifetime>] $lifetime $name $versions, $flexible_from);
    };
    (@codec [$($generics:tt)*] $input:lifetime $name:ident $versions:expr, $flexible_from:expr) => {
        impl $($generics)* $name $($generics)* {
            /// Supported versions.
            pub const VERSIONS: std::ops::RangeInclusive<i16> = $versions;
            /// First version with compact lengths and tagged fields (KIP-482).
            pub const FLEXIBLE_FROM: i16 = $flexible_from;

            /// Decodes the body. Bytes after the body stay unread in `r`.
            ///
            /// # Errors
            /// The version is not supported, or the bytes are not a body of this version.
            pub fn decode(
                version: i16,
                r: &mut $crate::primitives::Reader<$input>,
            ) -> Result<Self, $crate::error::WireError> {
                $crate::schema::Value::read(Self::form(version)?, r)
            }

            /// Appends the body.
            ///
            /// # Errors
            /// The version is not supported or lacks a field that is set, or a length exceeds the protocol.
            pub fn encode(&self, version: i16, out: &mut Vec<u8>) -> Result<(), $crate::error::WireError> {
                $crate::schema::Value::write(self, Self::form(version)?, out)
            }

            fn form(version: i16) -> Result<$crate::schema::Form, $crate::error::WireError> {
                match Self::VERSIONS.contains(&version) {
                    true => {
                        Ok($crate::schema::Form { version, flexible: version >= Self::FLEXIBLE_FROM, nullable: false })
                    }
                    false => Err($crate::error::WireError::UnsupportedVersion { api: stringify!($name), version }),
                }
            }
        }
    };
}

/// Makes a message the request of an API: `MetadataRequest<'_>: Metadata => MetadataResponse<'r>`.
macro_rules! request {
    ($request:ty: $api:ident => $response:ty) => {
        impl $crate::api::KafkaRequest for $request {
            const KEY: $crate::api::ApiKey = $crate::api::ApiKey::$api;
            type Response<'r> = $response;

            fn encode_body(&self, version: i16, out: &mut Vec<u8>) -> Result<(), $crate::error::WireError> {
                self.encode(version, out)
            }

            fn decode_response<'r>(
                version: i16,
                r: &mut $crate::primitives::Reader<'r>,
            ) -> Result<Self::Response<'r>, $crate::error::WireError> {
                <$response>::decode(version, r)
            }
        }
    };
}

/// Makes a struct a value that can be null: a byte before the struct says whether the struct follows.
macro_rules! nullable {
    ($name:ident $(<$lifetime:lifetime>)?) => {
        impl<'a> $crate::schema::Value<'a> for Option<$name $(<$lifetime>)?> {
            type Owned = Option<$crate::schema::owned_type!($name $($lifetime)?)>;

            fn read(
                form: $crate::schema::Form,
                r: &mut $crate::primitives::Reader<'a>,
            ) -> Result<Self, $crate::error::WireError> {
                if form.nullable && r.i8()? < 0 {
                    return Ok(None);
                }
                $crate::schema::Value::read(form, r).map(Some)
            }

            fn write(&self, form: $crate::schema::Form, out: &mut Vec<u8>) -> Result<(), $crate::error::WireError> {
                if form.nullable {
                    $crate::primitives::writer::put_i8(out, if self.is_some() { 1 } else { -1 });
                }
                match self {
                    Some(value) => $crate::schema::Value::write(value, form, out),
                    None => Ok(()),
                }
            }

            fn min_size(form: $crate::schema::Form) -> usize {
                if form.nullable { 1 } else { <$name as $crate::schema::Value<'_>>::min_size(form) }
            }

            fn into_owned(self) -> Self::Owned {
                self.map($name::into_owned)
            }

            fn is_null(&self) -> bool {
                self.is_none()
            }
        }
    };
}

pub(crate) use {default_value, message, nullable, owned_type, request, rule, structs};
