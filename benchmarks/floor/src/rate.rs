//! A paced topic: CPU and latency from produce to handler, window by window.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Failure;
use crate::batch::Walk;
use crate::fetch::{Fetcher, Limits};
use crate::process::{cpu_time, peak_rss};
use crate::wire::Connection;

/// Fields that the handler stores of each value: u64 sequence, u64 send time in ns since 1970, u32 (little endian).
struct Seen {
    sequence: u64,
    latency: u64,
    number: u32,
}

/// The lengths of the windows in seconds; the warm-up is not reported.
pub struct Plan {
    pub per_second: usize,
    pub warm_up: f64,
    pub windows: usize,
    pub seconds: f64,
}

pub fn run(bootstrap: &str, topic: &str, plan: &Plan) -> Result<(), Failure> {
    let mut fetcher = Fetcher::new(Connection::open(bootstrap)?, topic, Limits::default());
    let mut offsets = [0i64];
    let length = plan.warm_up + plan.seconds * plan.windows as f64;
    let mut seen: Vec<Seen> = Vec::with_capacity((plan.per_second as f64 * (length + 10.0)) as usize);
    let mut marks = vec![(Instant::now(), cpu_time(), 0)];
    for length in std::iter::once(plan.warm_up).chain(std::iter::repeat_n(plan.seconds, plan.windows)) {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs_f64(length) {
            let portions = fetcher.fetch(&offsets)?;
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
            for portion in &portions {
                for batch in Walk(&fetcher.bytes()[portion.records.clone()]) {
                    batch.check_crc()?;
                    batch.parse(|value| seen.extend(unpack(value, now)))?;
                    offsets[portion.partition] = batch.next_offset;
                }
            }
        }
        marks.push((Instant::now(), cpu_time(), seen.len()));
    }
    // All computing is done after the last window, when nothing is measured.
    let windows = marks.windows(2).skip(1).map(|pair| {
        let ((start, cpu_before, from), (end, cpu_after, to)) = (pair[0], pair[1]);
        report(&mut seen[from..to], end - start, cpu_after - cpu_before)
    });
    let windows = windows.collect::<Vec<_>>().join(", ");
    let peak_rss = peak_rss();
    println!("{{\"windows\": [{windows}], \"peak_rss\": {peak_rss}, \"version\": \"Fetch v11, 1 in flight\"}}");
    Ok(())
}

fn unpack(value: &[u8], now: u64) -> Option<Seen> {
    let sequence = u64::from_le_bytes(*value.first_chunk()?);
    let sent = u64::from_le_bytes(*value.get(8..)?.first_chunk()?);
    let number = u32::from_le_bytes(*value.get(16..)?.first_chunk()?);
    Some(Seen { sequence, latency: now.saturating_sub(sent), number })
}

fn report(seen: &mut [Seen], wall: Duration, cpu: Duration) -> String {
    let gaps = seen.windows(2).filter(|pair| pair[1].sequence != pair[0].sequence + 1).count();
    let wrong = seen.iter().filter(|seen| seen.number != seen.sequence as u32).count();
    seen.sort_unstable_by_key(|seen| seen.latency);
    let at = |share: f64| {
        let last = seen.len().saturating_sub(1);
        seen.get((last as f64 * share) as usize).map_or(0.0, |seen| seen.latency as f64 / 1e3)
    };
    format!(
        "{{\"seconds\": {:.6}, \"cpu_seconds\": {:.6}, \"records\": {}, \"wrong\": {}, \
         \"p50_us\": {:.1}, \"p99_us\": {:.1}, \"p999_us\": {:.1}, \"max_us\": {:.1}}}",
        wall.as_secs_f64(),
        cpu.as_secs_f64(),
        seen.len(),
        gaps + wrong,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
    )
}
