//! Arrow's validity bitmap, which takes no memory before the first null.

/// Bitmap with one bit per row, least significant first: 1 is a value, 0 is null. Empty as long as no row is null.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: Vec<u64>,
    len: usize,
    nulls: usize,
}

impl Bitmap {
    /// Returns whether no row is null (then there are no words, either).
    pub fn is_empty(&self) -> bool {
        self.nulls == 0
    }

    /// Returns the number of null rows.
    pub fn null_count(&self) -> usize {
        self.nulls
    }

    /// Returns the bits, 64 to a word. On a little-endian machine these are Arrow's bytes.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns whether the row is null. Rows that were never appended are not.
    pub fn is_null(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| row < self.len && word >> (row % 64) & 1 == 0)
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.words.clear();
        self.len = 0;
        self.nulls = 0;
    }

    /// Appends the rows after `row` others: bit i of `valid` for each i < `count` <= 64.
    #[inline]
    pub(crate) fn append(&mut self, row: usize, valid: u64, count: usize) {
        if count == 0 {
            return;
        }
        let all = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
        let nulls = count - (valid & all).count_ones() as usize;
        if self.words.is_empty() {
            if nulls == 0 {
                return;
            }
            self.backfill(row);
        }
        self.nulls += nulls;
        let shift = self.len % 64;
        if shift == 0 {
            self.words.push(valid & all);
        } else {
            if let Some(last) = self.words.last_mut() {
                *last |= (valid & all) << shift;
            }
            if shift + count > 64 {
                self.words.push((valid & all) >> (64 - shift));
            }
        }
        self.len += count;
    }

    /// Adds the words of the first `rows` rows, none of which is null.
    #[cold]
    fn backfill(&mut self, rows: usize) {
        self.words.resize(rows / 64, u64::MAX);
        if !rows.is_multiple_of(64) {
            self.words.push((1 << (rows % 64)) - 1);
        }
        self.len = rows;
    }

    /// Keeps the first `rows` rows only.
    pub(crate) fn truncate(&mut self, rows: usize) {
        if self.words.is_empty() || rows >= self.len {
            return;
        }
        self.words.truncate(rows.div_ceil(64));
        if !rows.is_multiple_of(64)
            && let Some(last) = self.words.last_mut()
        {
            *last &= (1 << (rows % 64)) - 1;
        }
        self.len = rows;
        self.nulls = rows - self.words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        if self.nulls == 0 {
            self.clear();
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_come_back_as_appended(chunks in prop::collection::vec((any::<u64>(), 0usize..=64), 0..12), cut in 0usize..800) {
            let mut bitmap = Bitmap::default();
            let mut model: Vec<bool> = Vec::new();
            for (valid, count) in chunks {
                bitmap.append(model.len(), valid, count);
                model.extend((0..count).map(|i| valid >> i & 1 == 1));
            }
            for round in 0..2 {
                prop_assert_eq!(bitmap.null_count(), model.iter().filter(|v| !**v).count());
                for (row, valid) in model.iter().enumerate() {
                    prop_assert_eq!(bitmap.is_null(row), !valid);
                }
                if !bitmap.is_empty() {
                    prop_assert_eq!(bitmap.words().len(), model.len().div_ceil(64));
                }
                if round == 0 {
                    bitmap.truncate(cut);
                    model.truncate(cut);
                }
            }
        }
    }
}
