//! Any bytes as any message in any version: no panic, bounded memory, and decoded messages survive a round trip.
#![no_main]

use grete_fuzz::counting::bounded;
use grete_wire::{Reader, messages};
use libfuzzer_sys::fuzz_target;

/// Only an array's elements take more memory than their encoding. The worst, a group of OffsetFetchRequest, has 80
/// bytes for 3. Each level of nesting may also reserve memory for the rest of the input before it detects the
/// truncation.
const FACTOR: usize = 128;
const CAP: usize = 4 * 1024;

macro_rules! round_trips {
    ($($name:ident $module:ident,)*) => {
        [$((messages::$name::VERSIONS, (|version, bytes| {
            let decode = |bytes| messages::$name::decode(version, &mut Reader::new(bytes));
            let Ok(first) = bounded(bytes.len(), FACTOR, CAP, || decode(bytes)) else { return };
            let mut out = Vec::new();
            first.encode(version, &mut out).expect("what was decoded encodes");
            assert_eq!(messages::$name::decode(version, &mut Reader::new(&out)).as_ref(), Ok(&first));
            assert_eq!(first.clone().into_owned(), first);
        }) as fn(i16, &[u8])),)*]
    };
}

fuzz_target!(|data: &[u8]| {
    let Some((&[which, version], bytes)) = data.split_first_chunk::<2>() else { return };
    let all = grete_wire::for_each_message!(round_trips);
    let (versions, round_trip) = &all[usize::from(which) % all.len()];
    let count = i16::from(version) % (versions.end() - versions.start() + 1);
    round_trip(versions.start() + count, bytes);
});
