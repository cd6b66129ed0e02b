//! Random batches, valid and corrupt, decode like the model.

use grete_wire::buffer_pool::PooledBuf;
use grete_wire::records::test_encoder::{BatchOptions, TestRecord, build_batch, set_length_and_crc};
use grete_wire::records::{BatchHeader, Columns, RecordError, iter_batches};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::unpack::unpack;
use crate::{CODECS, decode, decoder, model, rows};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => vec(any::<u8>(), 0..20),
        3 => vec(any::<u8>(), 20..200),
        1 => (any::<u8>(), 4000usize..20_000).prop_map(|(byte, n)| std::vec![byte; n]),
    ]
}

fn record() -> impl Strategy<Value = TestRecord> {
    let timestamp = prop_oneof![8 => 1_700_000_000_000i64..1_700_000_100_000, 1 => any::<i64>()];
    let headers = prop_oneof![3 => Just(Vec::new()), 1 => vec((vec(any::<u8>(), 0..9), option::of(bytes())), 0..4)];
    (timestamp, option::of(bytes()), option::weighted(0.9, bytes()), headers)
        .prop_map(|(timestamp, key, value, headers)| TestRecord { timestamp, key, value, headers })
}

/// Small enough that a flipped bit often hits structure.
fn small_record() -> impl Strategy<Value = TestRecord> {
    let headers = prop_oneof![4 => Just(Vec::new()), 1 => vec((vec(any::<u8>(), 0..3), option::of(vec(any::<u8>(), 0..3))), 0..3)];
    (0i64..100_000, option::of(vec(any::<u8>(), 0..14)), option::of(vec(any::<u8>(), 0..30)), headers)
        .prop_map(|(timestamp, key, value, headers)| TestRecord { timestamp, key, value, headers })
}

fn deltas(gaps: &[u32]) -> Vec<i32> {
    let mut next = -1i32;
    gaps.iter()
        .map(|&gap| {
            next += 1 + gap as i32;
            next
        })
        .collect()
}

fn options() -> impl Strategy<Value = BatchOptions> {
    (0..CODECS.len(), option::of(any::<i64>()), any::<bool>()).prop_map(|(codec, log_append, transactional)| {
        BatchOptions { compression: CODECS[codec], log_append, transactional, ..BatchOptions::default() }
    })
}

proptest! {
    #[test]
    fn good_batches_decode_as_they_were_made(
        batches in vec((vec(record(), 0..150), options(), vec(0u32..3, 150)), 1..3),
        base in 0i64..1 << 40,
        skip in 0i64..300,
    ) {
        let (mut all, mut expected) = (Vec::new(), Vec::new());
        let mut next = base;
        for (records, mut options, gaps) in batches {
            let deltas = deltas(&gaps[..records.len()]);
            options.last_offset_delta = Some(deltas.last().map_or(0, |last| last + 2));
            options.offset_deltas = Some(deltas.clone());
            all.extend(build_batch(next, &records, &options));
            for (mut record, delta) in records.into_iter().zip(deltas) {
                record.timestamp = options.log_append.unwrap_or(record.timestamp);
                expected.push(model::Row { offset: next + i64::from(delta), record });
            }
            next += i64::from(options.last_offset_delta.unwrap()) + 1;
        }
        let columns = decode(&all, base + skip).unwrap();
        expected.retain(|row| row.offset >= base + skip);
        let by_model: Vec<_> = iter_batches(&all).flat_map(|item| model::decode(&all[item.unwrap().1], base + skip, unpack).unwrap()).collect();
        prop_assert_eq!(&by_model, &expected);
        prop_assert_eq!(&rows(&columns), &expected);

        let picks: Vec<u32> = (0..expected.len() as u32).rev().step_by(3).collect();
        let picked: Vec<_> = picks.iter().map(|&i| expected[i as usize].clone()).collect();
        prop_assert_eq!(&rows(&columns.gather(&picks)), &picked);
        // Over the earlier content of other columns.
        let mut used = columns.gather(&picks[picks.len() / 2..]);
        columns.gather_into(&picks, &mut used);
        prop_assert_eq!(rows(&used), picked);
        let one = columns.gather(picks.get(..1).unwrap_or_default());
        prop_assert!(one.buffers.len() <= 1, "a record lies in one buffer");
    }

    #[test]
    fn broken_records_are_refused_when_the_model_refuses_them(
        records in vec(small_record(), 1..40),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        from in 0i64..20,
    ) {
        let mut batch = build_batch(7, &records, &BatchOptions::default());
        for (at, byte) in damage {
            let at = 21 + at.index(batch.len() - 21);
            batch[at] = byte;
        }
        batch[22] &= !7; // codecs are left to the fuzzer
        set_length_and_crc(&mut batch);
        let mut slab_bytes = vec![0xaa; 5];
        slab_bytes.extend(&batch);
        let slab = PooledBuf::from(slab_bytes);
        let Some(Ok((header, range))) = iter_batches(&slab[5..]).next() else { return Ok(()) };
        let range = range.start + 5..range.end + 5;

        let mut columns = decode_prefix();
        let before = rows(&columns);
        let result = decoder(1 << 20).decode(&slab, range, &header, from, &mut columns);
        match model::decode(&batch, from, unpack) {
            Ok(expected) => {
                prop_assert_eq!(&result, &Ok(()));
                prop_assert_eq!(&rows(&columns)[before.len()..], &expected[..]);
            }
            Err(model::Refused) => {
                prop_assert!(matches!(result, Err(RecordError::Malformed { base_offset: 7, .. })), "{:?}", result);
                prop_assert_eq!(rows(&columns), before);
                prop_assert_eq!(columns.buffers.len(), 1);
            }
        }
    }

    #[test]
    fn a_truncated_tail_ends_the_walk_in_silence(records in vec(small_record(), 1..6), cut in any::<prop::sample::Index>()) {
        let first = build_batch(3, &records, &BatchOptions::default());
        let second = build_batch(100, &records, &BatchOptions::default());
        let mut all = first.clone();
        all.extend(&second[..cut.index(second.len())]);
        let batches: Vec<_> = iter_batches(&all).collect();
        prop_assert_eq!(batches.len(), 1);
        prop_assert_eq!(batches[0].as_ref().map(|(_, range)| range.clone()), Ok(0..first.len()));
    }

    #[test]
    fn any_bytes_are_walked_without_harm(noise in vec(any::<u8>(), 0..200)) {
        let mut seen = 0;
        for (header, range) in iter_batches(&noise).flatten() {
            prop_assert_eq!(range.start, seen);
            prop_assert!(range.end <= noise.len());
            prop_assert!(header.next_offset() > header.base_offset);
            seen = range.end;
        }
    }
}

/// Returns columns with a record, which must survive the rollback of a corrupt batch.
fn decode_prefix() -> Columns {
    decode(&build_batch(0, &[TestRecord::value(5, "a value of some length")], &BatchOptions::default()), 0).unwrap()
}

#[test]
fn every_flipped_bit_under_the_checksum_is_found() {
    let records: Vec<_> = (0..3).map(|i| TestRecord::keyed(i, "key", "value")).collect();
    for codec in CODECS {
        let batch = build_batch(40, &records, &BatchOptions { compression: codec, ..BatchOptions::default() });
        let header = BatchHeader::parse(&batch).unwrap();
        for bit in 17 * 8..batch.len() * 8 {
            let mut broken = batch.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let expected = u32::from_be_bytes(broken[17..21].try_into().unwrap());
            let header = BatchHeader { crc: expected, ..header };
            let slab = PooledBuf::from(broken);
            let mut columns = Columns::default();
            let result = decoder(1 << 20).decode(&slab, 0..slab.len(), &header, 0, &mut columns);
            assert!(matches!(result, Err(RecordError::Crc { base_offset: 40, .. })), "{codec} bit {bit}: {result:?}");
            assert!(columns.is_empty());
        }
    }
}

#[test]
fn every_truncation_is_silent_to_the_walk() {
    let batch = build_batch(9, &[TestRecord::value(1, "value")], &BatchOptions::default());
    for cut in 0..batch.len() {
        assert_eq!(iter_batches(&batch[..cut]).count(), 0, "cut at {cut}");
    }
    assert_eq!(iter_batches(&batch).count(), 1);
}
