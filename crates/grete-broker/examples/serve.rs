//! Runs brokers until the end of standard input: `cargo run --example serve -- 3 9092` for three brokers from port
//! 9092 on.

use std::io::Read;

use grete_broker::embedded::{self, EmbeddedConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: u16 = arguments.next().map_or(Ok(1), |count| count.parse())?;
    let port: u16 = arguments.next().map_or(Ok(9092), |port| port.parse())?;
    let ports = (0..count).map(|index| if port == 0 { 0 } else { port.saturating_add(index) }).collect();
    let broker = embedded::start(EmbeddedConfig { ports, log_to_stderr: true, ..EmbeddedConfig::default() })?;
    println!("{:?}", broker.addresses());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
