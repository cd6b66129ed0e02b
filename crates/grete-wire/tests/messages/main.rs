//! Every message in every version: encoding and decoding are inverse, and no input makes a decoder panic.

mod samples;
mod values;
mod vectors;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use grete_wire::messages;
use grete_wire::{ApiKey, Reader, WireError};
use proptest::prelude::*;

use values::Values;

/// Functions of a message, so that tests can iterate over all messages.
struct Codec {
    name: &'static str,
    versions: RangeInclusive<i16>,
    flexible_from: i16,
    /// Encodes an arbitrary message. Returns the bytes, and whether they decode to the same message.
    sample: fn(i16, &mut Values) -> (Vec<u8>, bool),
    /// Encodes the default message of that version.
    default: fn(i16) -> Result<Vec<u8>, WireError>,
    /// Decodes, encodes and decodes again. Returns whether both decoded messages are equal.
    again: fn(i16, &[u8]) -> Result<bool, WireError>,
    /// Decodes only. Returns the bytes left over.
    decode: fn(i16, &[u8]) -> Result<usize, WireError>,
}

macro_rules! codecs {
    ($($name:ident $module:ident,)*) => {
        vec![$(Codec {
            name: stringify!($name),
            versions: messages::$name::VERSIONS,
            flexible_from: messages::$name::FLEXIBLE_FROM,
            sample: |version, values| {
                let message = samples::$module(version, values);
                let mut out = Vec::new();
                message.encode(version, &mut out).expect("a message with only this version's fields encodes");
                let mut r = Reader::new(&out);
                let back = messages::$name::decode(version, &mut r);
                let same = back.as_ref() == Ok(&message) && r.remaining() == 0;
                let owned = back.ok().map(messages::$name::into_owned);
                let same = same && owned.as_ref() == Some(&message);
                (out, same)
            },
            default: |version| {
                let mut out = Vec::new();
                messages::$name::default().encode(version, &mut out)?;
                Ok(out)
            },
            again: |version, bytes| {
                let first = messages::$name::decode(version, &mut Reader::new(bytes))?;
                let mut out = Vec::new();
                first.encode(version, &mut out).expect("what was decoded encodes");
                Ok(messages::$name::decode(version, &mut Reader::new(&out)).as_ref() == Ok(&first))
            },
            decode: |version, bytes| {
                let mut r = Reader::new(bytes);
                messages::$name::decode(version, &mut r).map(|_| r.remaining())
            },
        },)*]
    };
}

fn codecs() -> Vec<Codec> {
    grete_wire::for_each_message!(codecs)
}

#[test]
fn versions_and_flexibility_agree_with_the_api_keys() {
    let codecs: BTreeMap<String, Codec> = codecs().into_iter().map(|codec| (codec.name.to_string(), codec)).collect();
    for &api in ApiKey::ALL {
        for side in ["Request", "Response"] {
            let codec = &codecs[&format!("{api}{side}")];
            assert_eq!(codec.versions, api.valid(), "{}", codec.name);
            for version in api.valid() {
                assert_eq!(version >= codec.flexible_from, api.is_flexible(version), "{} {version}", codec.name);
            }
        }
    }
    assert_eq!(codecs.len(), 2 * ApiKey::ALL.len() + 4);
}

#[test]
fn versions_outside_the_schema_are_refused_both_ways() {
    for codec in codecs() {
        for version in [codec.versions.start() - 1, codec.versions.end() + 1, i16::MIN, i16::MAX] {
            let refused = WireError::UnsupportedVersion { api: codec.name, version };
            assert_eq!((codec.default)(version), Err(refused.clone()), "{}", codec.name);
            assert_eq!((codec.decode)(version, &[0; 64]), Err(refused), "{}", codec.name);
        }
    }
}

#[test]
fn the_default_message_round_trips_in_every_version() {
    for codec in codecs() {
        for version in codec.versions.clone() {
            let bytes = (codec.default)(version).unwrap_or_else(|error| panic!("{} {version}: {error}", codec.name));
            assert_eq!((codec.decode)(version, &bytes), Ok(0), "{} {version}", codec.name);
            assert_eq!((codec.again)(version, &bytes), Ok(true), "{} {version}", codec.name);
        }
    }
}

#[test]
fn filled_messages_round_trip_and_every_cut_is_an_error() {
    for codec in codecs() {
        for version in codec.versions.clone() {
            for seed in 0..20 {
                let (bytes, same) = (codec.sample)(version, &mut Values::new(seed));
                assert!(same, "{} version {version} seed {seed}", codec.name);
                for cut in 0..bytes.len() {
                    let result = (codec.decode)(version, &bytes[..cut]);
                    assert!(
                        matches!(result, Err(WireError::Truncated { .. })),
                        "{} version {version} seed {seed} cut at {cut}: {result:?}",
                        codec.name
                    );
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Damaged valid messages reach deeper into a decoder than random bytes.
    #[test]
    fn damaged_messages_never_panic(seed: u64, at: prop::sample::Index, byte: u8, insert: bool) {
        for codec in codecs() {
            for version in codec.versions.clone() {
                let (mut bytes, same) = (codec.sample)(version, &mut Values::new(seed));
                prop_assert!(same, "{} {}", codec.name, version);
                if bytes.is_empty() {
                    continue;
                }
                let at = at.index(bytes.len());
                if insert { bytes.insert(at, byte) } else { bytes[at] = byte }
                if let Ok(same) = (codec.again)(version, &bytes) {
                    prop_assert!(same, "{} {}", codec.name, version);
                }
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for codec in codecs() {
            for version in codec.versions.clone() {
                if let Ok(same) = (codec.again)(version, &bytes) {
                    prop_assert!(same, "{} {}", codec.name, version);
                }
            }
        }
    }
}

/// All versions of all messages pass through Kafka's own classes and must come back byte for byte.
#[test]
#[ignore = "needs Java 17, and KAFKA_CLASSPATH with kafka-clients and slf4j-api (`.../jars/*` will do)"]
fn kafkas_own_classes_echo_every_message() {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    let classpath = std::env::var_os("KAFKA_CLASSPATH").expect("set KAFKA_CLASSPATH");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/Echo.java");
    let mut java = Command::new("java")
        .arg("-cp")
        .arg(classpath)
        .arg(source)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("java runs");
    let mut lines = String::new();
    let mut sent = 0;
    for codec in codecs() {
        for version in codec.versions.clone() {
            for seed in 0..10 {
                let (bytes, _) = (codec.sample)(version, &mut Values::new(seed));
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                lines.push_str(&format!("{} {version} {hex}\n", codec.name));
                sent += 1;
            }
        }
    }
    // Java responds only at the end, so writing everything first cannot block.
    java.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let mut answer = String::new();
    java.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(java.wait().unwrap().success(), "{answer}");
    assert_eq!(answer.trim(), format!("{sent} equal"));
}
