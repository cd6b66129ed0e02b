//! Optional numbers without a discriminant, for state that exists once per partition.

use crate::time::Nanos;

/// Optional time in 8 bytes. [`Nanos::MAX`] stands for no time, so the last time is one nanosecond earlier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionalNanos(Nanos);

/// Optional offset or timestamp in 8 bytes. [`i64::MIN`] stands for no number, so the first number is one higher.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionalI64(i64);

macro_rules! optional {
    ($name:ident, $number:ty, $none:expr, $nearest:expr) => {
        impl $name {
            /// No number.
            pub(crate) const NONE: Self = Self($none);

            pub(crate) const fn get(self) -> Option<$number> {
                if self.0 == $none { None } else { Some(self.0) }
            }

            /// Sets the number. Returns the number up to now.
            pub(crate) fn replace(&mut self, number: Option<$number>) -> Option<$number> {
                std::mem::replace(self, number.into()).get()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::NONE
            }
        }

        impl From<Option<$number>> for $name {
            fn from(number: Option<$number>) -> Self {
                number.map_or(Self::NONE, |number| Self(if number == $none { $nearest } else { number }))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.get().fmt(f)
            }
        }
    };
}

optional!(OptionalNanos, Nanos, Nanos::MAX, Nanos::MAX - 1);
optional!(OptionalI64, i64, i64::MIN, i64::MIN + 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_replaced_and_none_is_none() {
        let mut at = OptionalNanos::default();
        assert_eq!((at.get(), at.replace(Some(0)), at.get()), (None, None, Some(0)));
        assert_eq!((at.replace(None), at), (Some(0), OptionalNanos::NONE));
        assert_eq!(OptionalNanos::from(Some(Nanos::MAX)).get(), Some(Nanos::MAX - 1), "never is a time");
        assert_eq!(format!("{:?}", OptionalI64::from(Some(-1))), "Some(-1)");
        assert_eq!((size_of::<OptionalNanos>(), size_of::<OptionalI64>()), (8, 8));
    }
}
