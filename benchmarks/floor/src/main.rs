//! The floor: a blocking socket, one request in flight, no client library.
//!
//! `floor consume BOOTSTRAP TOPIC PARTITIONS RECORDS read|crc|crcparse [CA.pem]` (with a CA: over TLS)
//! `floor rate BOOTSTRAP TOPIC PER_SECOND WARMUP_SECONDS WINDOWS WINDOW_SECONDS`
//! `floor produce BOOTSTRAP TOPIC 1 WARM_UP RECORDS VALUE_BYTES [CA.pem]`
//!
//! It expects a broker that leads every partition of the topic (a single node).

mod batch;
mod consume;
mod fetch;
mod process;
mod produce;
mod rate;
mod wire;

use std::error::Error;

/// Anything that ends the program; it is printed and the exit code is 1.
type Failure = Box<dyn Error>;

const USAGE: &str = "usage: floor consume BOOTSTRAP TOPIC PARTITIONS RECORDS read|crc|crcparse [CA.pem]
       floor rate BOOTSTRAP TOPIC PER_SECOND WARMUP_SECONDS WINDOWS WINDOW_SECONDS
       floor produce BOOTSTRAP TOPIC 1 WARM_UP RECORDS VALUE_BYTES [CA.pem]";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["consume", bootstrap, topic, partitions, records, mode, authority @ ..] if authority.len() < 2 => {
            let mode = consume::Mode::parse(mode)?;
            consume::run(bootstrap, topic, partitions.parse()?, records.parse()?, mode, authority.first().copied())
        }
        ["rate", bootstrap, topic, per_second, warm_up, windows, seconds] => {
            let plan = rate::Plan {
                per_second: per_second.parse()?,
                warm_up: warm_up.parse()?,
                windows: windows.parse()?,
                seconds: seconds.parse()?,
            };
            rate::run(bootstrap, topic, &plan)
        }
        ["produce", bootstrap, topic, "1", warm_up, records, value_bytes, authority @ ..] if authority.len() < 2 => {
            let value = vec![b'x'; value_bytes.parse()?];
            let authority = authority.first().copied();
            produce::run(bootstrap, topic, warm_up.parse()?, records.parse()?, &value, authority)
        }
        _ => Err(USAGE.into()),
    }
}
