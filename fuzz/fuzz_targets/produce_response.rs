//! Any response to a Produce request: no panic, memory in proportion, and decoded responses survive a round trip.
#![no_main]

use grete_fuzz::counting::bounded;
use grete_wire::Reader;
use grete_wire::messages::ProduceResponse;
use libfuzzer_sys::fuzz_target;

/// A topic takes 64 bytes for 3 on the wire, a partition 96 for 22, a record's error 32 for 6, an endpoint 56 for 11.
/// Each list may also reserve memory for the rest of the input before it detects the truncation.
const FACTOR: usize = 22 + 5 + 6 + 6;
const CAP: usize = 1024;

fuzz_target!(|data: &[u8]| {
    let Some((&version, body)) = data.split_first() else { return };
    let version = 3 + i16::from(version % 11);
    let mut r = Reader::new(body);
    let Ok(answer) = bounded(body.len(), FACTOR, CAP, || ProduceResponse::decode(version, &mut r)) else { return };
    let mut again = Vec::new();
    answer.encode(version, &mut again).expect("what was decoded encodes");
    // Unknown tags, and lengths with more bytes than they need, are not encoded again.
    assert!(again.len() <= r.position());
    assert_eq!(ProduceResponse::decode(version, &mut Reader::new(&again)).as_ref(), Ok(&answer));
});
