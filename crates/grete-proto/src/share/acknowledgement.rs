//! Acknowledgements of acquired records.

/// Meaning of an acknowledgement, as a number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i8)]
pub enum AckType {
    /// The acquired offset has no record.
    Gap = 0,
    /// The record is processed.
    Accept = 1,
    /// The record is not processed: a member gets it again.
    Release = 2,
    /// The record cannot be processed: no member gets it again.
    Reject = 3,
    /// The record is being processed: its lock begins anew (ShareAcknowledge 2, KIP-1222).
    Renew = 4,
}

impl AckType {
    /// Returns the number on the wire.
    #[must_use]
    pub fn number(self) -> i8 {
        self as i8
    }
}

/// Acknowledgement of the records `first..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgement {
    /// First offset.
    pub first: i64,
    /// Last offset.
    pub last: i64,
    /// Meaning.
    pub kind: AckType,
}

impl Acknowledgement {
    /// Creates the acknowledgement of one record.
    #[must_use]
    pub fn one(offset: i64, kind: AckType) -> Self {
        Self { first: offset, last: offset, kind }
    }

    /// Returns the number of offsets.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::try_from(self.last.saturating_sub(self.first).saturating_add(1)).unwrap_or(0)
    }

    /// Returns whether there is no offset.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the offsets.
    pub fn offsets(&self) -> impl Iterator<Item = i64> + use<> {
        self.first..=self.last
    }
}

/// Sorts acknowledgements by offset, and joins neighbors of one kind.
#[must_use]
pub fn merged(mut all: Vec<Acknowledgement>) -> Vec<Acknowledgement> {
    all.sort_unstable_by_key(|ack| ack.first);
    let mut merged: Vec<Acknowledgement> = Vec::with_capacity(all.len().min(64));
    for ack in all {
        match merged.last_mut().filter(|last| last.kind == ack.kind && last.last.checked_add(1) == Some(ack.first)) {
            Some(last) => last.last = ack.last,
            None => merged.push(ack),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_of_one_kind_are_one_range() {
        let one = Acknowledgement::one;
        let all = vec![one(7, AckType::Accept), one(5, AckType::Accept), one(6, AckType::Accept), one(8, AckType::Gap)];
        let expected = [Acknowledgement { first: 5, last: 7, kind: AckType::Accept }, one(8, AckType::Gap)];
        assert_eq!(merged(all), expected);
        assert_eq!(expected.map(|ack| ack.len()), [3, 1]);
    }
}
