//! Units of a lane by number, and the lowest number that is free.
//!
//! A lane with a fixed number of slots has one unit for each slot, numbered from 0. A lane without a fixed number has
//! one unit for each key that has rows, with a number from [`FIRST_KEY`] on, and one for each job of rows without a
//! key.

use std::collections::BTreeMap;

use super::unit::Unit;
use crate::dispatch::rows::key_partitioner::FIRST_KEY;

/// Units in use. An idle unit needs no entry. A lane without slots has unit 0 alone.
#[derive(Debug, Default)]
pub(super) struct UnitTable {
    /// Unit 0; `None`: not in use.
    zero: Option<Box<Unit>>,
    /// All others; `None`: none was in use.
    others: Option<Box<OtherUnits>>,
}

/// Units in use, but unit 0.
#[derive(Debug, Default)]
struct OtherUnits {
    /// Units from 1 up to [`FIRST_KEY`], by number less one; `None`: not in use.
    numbered: Vec<Option<Box<Unit>>>,
    /// Numbers of the units in `numbered`, less one.
    used: NumberSet,
    /// Units of keys. Ordered, so that each run of a simulation visits them in the same order.
    keyed: BTreeMap<u32, Box<Unit>>,
}

impl UnitTable {
    pub(super) fn get(&self, number: u32) -> Option<&Unit> {
        match number.checked_sub(1) {
            None => self.zero.as_deref(),
            Some(_) if number >= FIRST_KEY => self.others.as_ref()?.keyed.get(&number).map(|unit| &**unit),
            Some(place) => self.others.as_ref()?.numbered.get(place as usize)?.as_deref(),
        }
    }

    /// Returns the unit, created on first use.
    pub(super) fn get_or_create(&mut self, number: u32) -> &mut Unit {
        let Some(place) = number.checked_sub(1) else { return self.zero.get_or_insert_default() };
        let others = self.others.get_or_insert_default();
        if number >= FIRST_KEY {
            return others.keyed.entry(number).or_default();
        }
        let index = place as usize;
        if others.numbered.len() <= index {
            others.numbered.resize_with(index + 1, || None);
        }
        let unit = others.numbered.get_mut(index).unwrap_or_else(|| unreachable!("just made room for it"));
        unit.get_or_insert_with(|| {
            others.used.insert(place);
            Box::default()
        })
    }

    /// Frees the memory of a unit that has nothing left.
    pub(super) fn drop_idle(&mut self, number: u32) {
        let Some(place) = number.checked_sub(1) else {
            self.zero.take_if(|unit| unit.is_idle());
            return;
        };
        let Some(others) = &mut self.others else { return };
        if number >= FIRST_KEY {
            if others.keyed.get(&number).is_some_and(|unit| unit.is_idle()) {
                others.keyed.remove(&number);
            }
        } else if let Some(unit) = others.numbered.get_mut(place as usize)
            && unit.take_if(|unit| unit.is_idle()).is_some()
        {
            others.used.remove(place);
        }
    }

    /// Frees the memory of all units that have nothing left.
    pub(super) fn drop_all_idle(&mut self) {
        let idle: Vec<u32> = self.iter().filter(|(_, unit)| unit.is_idle()).map(|(number, _)| number).collect();
        idle.into_iter().for_each(|number| self.drop_idle(number));
    }

    /// Returns the units with their numbers, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Unit)> {
        let zero = self.zero.iter().map(|unit| (0, &**unit));
        zero.chain(self.others.iter().flat_map(|others| {
            let numbered = (1_u32..).zip(&others.numbered);
            let numbered = numbered.filter_map(|(number, unit)| Some((number, unit.as_deref()?)));
            numbered.chain(others.keyed.iter().map(|(number, unit)| (*number, &**unit)))
        }))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Unit)> {
        let zero = self.zero.iter_mut().map(|unit| (0, &mut **unit));
        zero.chain(self.others.iter_mut().flat_map(|others| {
            let numbered = (1_u32..).zip(&mut others.numbered);
            let numbered = numbered.filter_map(|(number, unit)| Some((number, unit.as_deref_mut()?)));
            numbered.chain(others.keyed.iter_mut().map(|(number, unit)| (*number, &mut **unit)))
        }))
    }

    /// Returns the lowest number that is not in use.
    pub(super) fn lowest_free(&self) -> u32 {
        match &self.zero {
            None => 0,
            Some(_) => 1 + self.others.as_ref().map_or(0, |others| others.used.lowest_absent()),
        }
    }
}

/// Set of small numbers that knows the lowest number that it does not hold.
#[derive(Debug, Default)]
pub(super) struct NumberSet {
    /// One bit for each number.
    words: Vec<u64>,
    /// All words before this one are full.
    full: usize,
}

impl NumberSet {
    pub(super) fn insert(&mut self, number: u32) {
        let index = number as usize / 64;
        if self.words.len() <= index {
            self.words.resize(index + 1, 0);
        }
        if let Some(word) = self.words.get_mut(index) {
            *word |= 1 << (number % 64);
        }
        while self.words.get(self.full) == Some(&u64::MAX) {
            self.full += 1;
        }
    }

    pub(super) fn remove(&mut self, number: u32) {
        let index = number as usize / 64;
        if let Some(word) = self.words.get_mut(index) {
            *word &= !(1 << (number % 64));
            self.full = self.full.min(index);
        }
    }

    pub(super) fn lowest_absent(&self) -> u32 {
        let word = self.words.get(self.full).copied().unwrap_or(0);
        u32::try_from(self.full * 64).unwrap_or(u32::MAX).saturating_add(word.trailing_ones())
    }

    /// Adds the lowest number that is absent, and returns it.
    pub(super) fn take_lowest(&mut self) -> u32 {
        let number = self.lowest_absent();
        self.insert(number);
        number
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::dispatch::rows::key_partitioner::unit_of_key;

    #[test]
    fn an_idle_unit_leaves_nothing_behind() {
        let mut table = UnitTable::default();
        for number in [0, 1, unit_of_key(b"ann")] {
            table.get_or_create(number).set_running(true);
        }
        table.drop_all_idle();
        assert_eq!((table.iter().count(), table.lowest_free()), (3, 2));
        for number in [0, unit_of_key(b"ann")] {
            table.get_or_create(number).set_running(false);
            table.drop_idle(number);
        }
        assert_eq!((table.iter().map(|(number, _)| number).collect::<Vec<_>>(), table.lowest_free()), (vec![1], 0));
        assert!(table.others.is_some_and(|others| others.keyed.is_empty()));
    }

    proptest! {
        /// Compares with a naive set.
        #[test]
        fn as_a_naive_set(steps in prop::collection::vec((any::<bool>(), 0..300_u32), 0..600)) {
            let (mut set, mut naive) = (NumberSet::default(), BTreeSet::new());
            for (take, number) in steps {
                let lowest = (0..).find(|number| !naive.contains(number)).expect("numbers without end");
                if take {
                    prop_assert_eq!(set.take_lowest(), lowest);
                    naive.insert(lowest);
                } else if number % 3 == 0 {
                    set.insert(number);
                    naive.insert(number);
                } else {
                    set.remove(number);
                    naive.remove(&number);
                }
            }
        }
    }
}
