//! Fates of the transactions, and the checks of what readers find.

use std::collections::BTreeMap;

/// Fate of a transaction as its producer has learned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Neither call has returned yet.
    Open,
    Committed,
    Aborted,
    /// The call that commits has failed without an outcome.
    Unknown,
}

/// Transaction of a producer.
#[derive(Debug)]
pub(super) struct Record {
    pub fate: Fate,
    /// Partition and value of each record, in order.
    pub values: Vec<(i32, String)>,
    /// Whether the transaction has an offset: its own number.
    pub has_offset: bool,
}

/// Transactions by number, in the order of their begin.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    pub transactions: BTreeMap<i64, Record>,
}

impl Oracle {
    /// Begins a transaction, and returns its number.
    pub fn begin(&mut self) -> i64 {
        let number = self.transactions.last_key_value().map_or(1, |(last, _)| last + 1);
        let record = Record { fate: Fate::Open, values: Vec::new(), has_offset: false };
        self.transactions.insert(number, record);
        number
    }

    pub fn get(&mut self, number: i64) -> &mut Record {
        self.transactions.get_mut(&number).expect("begun")
    }

    pub fn count(&self, fate: Fate) -> u64 {
        self.transactions.values().filter(|record| record.fate == fate).count() as u64
    }

    /// Checks the records of all partitions.
    pub fn check_records(&self, seed: u64, found: &BTreeMap<i32, Vec<String>>) {
        let mut seen: BTreeMap<&str, (i32, usize)> = BTreeMap::new();
        for (partition, values) in found {
            for (place, value) in values.iter().enumerate() {
                let twice = seen.insert(value, (*partition, place));
                assert_eq!(twice, None, "seed {seed}: {value} is there twice");
            }
        }
        let mut expected = 0;
        for (number, record) in &self.transactions {
            let there = record.values.iter().filter(|(_, value)| seen.contains_key(value.as_str())).count();
            let all = record.values.len();
            expected += there;
            let is_sound = match record.fate {
                Fate::Committed => there == all,
                Fate::Aborted => there == 0,
                Fate::Open | Fate::Unknown => there == 0 || there == all,
            };
            assert!(is_sound, "seed {seed}: {there} of {all} records of transaction {number}, {record:?}");
            let mut last: BTreeMap<i32, usize> = BTreeMap::new();
            for (partition, value) in &record.values {
                let Some(&(at, place)) = seen.get(value.as_str()) else { continue };
                assert_eq!(at, *partition, "seed {seed}: {value}");
                let before = last.insert(at, place);
                assert!(before.is_none_or(|before| before < place), "seed {seed}: {value} is out of order");
            }
        }
        assert_eq!(expected, seen.len(), "seed {seed}: records that no producer wrote");
        for (partition, values) in found {
            let numbers: Vec<i64> = values.iter().map(|value| number_of(value)).collect();
            assert!(
                numbers.is_sorted(),
                "seed {seed}: transactions of partition {partition} out of order: {numbers:?}"
            );
        }
    }

    /// Checks the committed offset, which is the number of a transaction; `None`: there is none.
    pub fn check_offset(&self, seed: u64, found: Option<i64>) {
        let with_offset = |fate: Fate| {
            let of_fate = self.transactions.iter().filter(move |(_, record)| record.has_offset && record.fate == fate);
            of_fate.map(|(number, _)| *number)
        };
        let last = with_offset(Fate::Committed).max();
        let is_unknown = |number: i64| {
            with_offset(Fate::Unknown).chain(with_offset(Fate::Open)).any(|unknown| unknown == number)
                && last.is_none_or(|last| number > last)
        };
        assert!(
            found == last || found.is_some_and(is_unknown),
            "seed {seed}: the committed offset is {found:?}, that of the last commit {last:?}"
        );
    }
}

/// Returns the number of the transaction of a value.
fn number_of(value: &str) -> i64 {
    value.split('-').next().and_then(|number| number.parse().ok()).unwrap_or(-1)
}
