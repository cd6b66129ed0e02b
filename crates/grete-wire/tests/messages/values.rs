//! Stream of arbitrary values, reproducible by its seed.

use std::borrow::Cow;

/// Source of the samples' values.
pub struct Values(u64);

macro_rules! ints {
    ($($name:ident)*) => {$(
        pub fn $name(&mut self) -> $name {
            // Small and extreme values reveal errors in varints and signs.
            match self.next() % 4 {
                0 => $name::MIN,
                1 => $name::MAX,
                2 => (self.next() % 100) as $name,
                _ => self.next() as $name,
            }
        }
    )*};
}

impl Values {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    ints! { i8 i16 i32 i64 }

    pub fn bool(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }

    pub fn uuid(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    pub fn string(&mut self) -> Cow<'static, str> {
        // A compact length takes one more byte from 128 on; the letter takes two bytes.
        let len = [0, 1, 5, 63, 64, 126, 127][(self.next() % 7) as usize];
        Cow::Owned("é".repeat(len))
    }

    pub fn bytes(&mut self) -> Cow<'static, [u8]> {
        let len = [0, 1, 5, 126, 127, 128][(self.next() % 6) as usize];
        Cow::Owned((0..len).map(|_| self.next() as u8).collect())
    }

    pub fn option<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (!self.next().is_multiple_of(3)).then(|| value(self))
    }

    pub fn vec<T>(&mut self, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.next() % 4).map(|_| value(self)).collect()
    }
}
