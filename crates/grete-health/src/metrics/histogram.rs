//! Histogram with fixed buckets.

/// Counts by bucket, and the sum of all observations.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Upper bounds in ascending order, inclusive.
    pub bounds: &'static [f64],
    /// Observations of each bucket, not cumulative, and then those above all bounds: one entry more than `bounds`.
    pub counts: Vec<u64>,
    /// Sum of all observations.
    pub sum: f64,
}

impl Histogram {
    /// Returns the upper bounds with cumulative counts. The last bound is infinite; its count is that of all
    /// observations.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let ends = self.bounds.iter().copied().chain([f64::INFINITY]);
        ends.enumerate().scan(0_u64, |all, (at, end)| {
            *all = all.saturating_add(self.counts.get(at).copied().unwrap_or_default());
            Some((end, *all))
        })
    }

    /// Returns the number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().take(self.bounds.len() + 1).fold(0, |all, one| all.saturating_add(*one))
    }

    /// Adds a histogram of the same bounds; one of other bounds is ignored.
    pub fn add(&mut self, other: &Self) {
        if self.bounds != other.bounds {
            return;
        }
        for (own, more) in self.counts.iter_mut().zip(&other.counts) {
            *own = own.saturating_add(*more);
        }
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_adds_up_to_infinity() {
        let mut one = Histogram { bounds: &[0.1, 1.0], counts: vec![1, 2, 3], sum: 9.5 };
        assert_eq!(one.cumulative().collect::<Vec<_>>(), [(0.1, 1), (1.0, 3), (f64::INFINITY, 6)]);
        one.add(&one.clone());
        one.add(&Histogram { bounds: &[7.0], counts: vec![100, 100], sum: 100.0 });
        assert_eq!(one.cumulative().collect::<Vec<_>>(), [(0.1, 2), (1.0, 6), (f64::INFINITY, 12)]);
        assert_eq!((one.count(), one.sum), (12, 19.0));
    }
}
