//! Merges the metrics of many processes into one text: each family once, with its help, and the label `node` before the
//! other labels.
//!
//! The input is untrusted. Only samples of families in [`descriptors`](super::descriptors) are taken, in the form in
//! which [`prometheus`](super::prometheus) writes them. Names, types, helps and label names never come from the input,
//! so that a node can neither report for another node nor redefine a family. A text with anything else in it is
//! rejected as a whole.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use crate::escapes::label;
use crate::metrics::descriptors::{ALL, MetricDescriptor, MetricType};

/// Maximum length of the merged text in bytes.
pub const MAX_AGGREGATED_BYTES: usize = 16 << 20;
/// Prefix of the supervisor's own metrics, which nodes do not have.
const SUPERVISOR_PREFIX: &str = "grete_swarm_";

/// Merged text under construction.
#[derive(Debug, Default)]
pub struct MetricsAggregator {
    /// Samples of each family, in the order of `descriptors::ALL`.
    samples: Vec<String>,
    bytes: usize,
}

/// Reason why a text was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidExposition {
    /// The text is not UTF-8.
    NotUtf8,
    /// The line of this number, from 1, is not one that Grete writes.
    BadLine(usize),
    /// The merged text would get too long.
    TooLarge,
}

impl MetricsAggregator {
    /// Creates an empty aggregator.
    pub fn new() -> Self {
        Self { samples: vec![String::new(); ALL.len()], bytes: 0 }
    }

    /// Adds the metrics of one node: all of them, or none.
    ///
    /// # Errors
    /// The reason why the text was rejected.
    pub fn add(&mut self, node: u64, text: &[u8]) -> Result<(), InvalidExposition> {
        let text = str::from_utf8(text).map_err(|_| InvalidExposition::NotUtf8)?;
        let before: Vec<usize> = self.samples.iter().map(String::len).collect();
        let result = self.add_samples(node, text);
        if result.is_err() {
            for (samples, length) in self.samples.iter_mut().zip(before) {
                samples.truncate(length);
            }
        }
        self.bytes = self.samples.iter().map(String::len).sum();
        result
    }

    /// Adds a sample of this process. `labels`: one value for each label name of the descriptor.
    pub fn add_own_sample(&mut self, entry: &'static MetricDescriptor, labels: &[&str], value: f64) {
        let Some(samples) = index_of(entry.name).and_then(|at| self.samples.get_mut(at)) else { return };
        samples.push_str(entry.name);
        for (at, (name, value)) in entry.labels.iter().zip(labels).enumerate() {
            samples.push_str(if at == 0 { "{" } else { "," });
            samples.push_str(name);
            samples.push_str("=\"");
            samples.push_str(&label(value));
            samples.push('"');
        }
        samples.push_str(if entry.labels.is_empty() { " " } else { "} " });
        let _ = writeln!(samples, "{value}"); // a write to a String cannot fail
    }

    /// Returns the text. Families come in the order of `descriptors::ALL`, without those that have no samples.
    #[must_use]
    pub fn finish(self) -> String {
        let mut text = String::with_capacity(self.bytes + 256 * ALL.len());
        for (entry, samples) in ALL.iter().zip(self.samples).filter(|(_, samples)| !samples.is_empty()) {
            let _ = writeln!(text, "# HELP {} {}\n# TYPE {} {}", entry.name, entry.help, entry.name, entry.kind.name());
            text.push_str(&samples);
        }
        text
    }

    fn add_samples(&mut self, node: u64, text: &str) -> Result<(), InvalidExposition> {
        let label = format!("{{node=\"{node}\"");
        let mut bytes = self.bytes;
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue; // help and type come from the descriptors
            }
            let sample = Sample::parse(line).ok_or(InvalidExposition::BadLine(number + 1))?;
            let samples = self.samples.get_mut(sample.family).ok_or(InvalidExposition::BadLine(number + 1))?;
            let comma = if sample.labels.is_empty() { "" } else { "," };
            for part in [sample.name, &label, comma, sample.labels, "} ", sample.value, "\n"] {
                samples.push_str(part);
                bytes += part.len();
            }
            if bytes > MAX_AGGREGATED_BYTES {
                return Err(InvalidExposition::TooLarge);
            }
        }
        Ok(())
    }
}

/// Parsed sample line.
struct Sample<'a> {
    /// Index in `descriptors::ALL`.
    family: usize,
    /// Name of the family, or one of the three series names of a histogram.
    name: &'a str,
    /// Text between the braces.
    labels: &'a str,
    value: &'a str,
}

impl<'a> Sample<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at_checked(end)?;
        let (family, part) = family_of(name)?;
        let entry = ALL.get(family).filter(|entry| !entry.name.starts_with(SUPERVISOR_PREFIX))?;
        let le = (part == Some("_bucket")).then_some("le");
        let (labels, value) = match rest.strip_prefix('{') {
            Some(inside) => {
                let rest = labels_end(inside, entry.labels.iter().copied().chain(le))?;
                let labels = inside.strip_suffix(rest)?;
                (labels, rest.strip_prefix("} ")?)
            }
            None if entry.labels.is_empty() && le.is_none() => ("", rest.strip_prefix(' ')?),
            None => return None,
        };
        is_number(value).then_some(Self { family, name, labels, value })
    }
}

/// Returns the text after the labels, if these are the labels, in this order.
fn labels_end(mut text: &str, names: impl Iterator<Item = &'static str>) -> Option<&str> {
    for (at, name) in names.enumerate() {
        if at > 0 {
            text = text.strip_prefix(',')?;
        }
        text = after_value(text.strip_prefix(name)?.strip_prefix("=\"")?)?;
    }
    Some(text)
}

/// Returns the text after a label's value and its quotation mark.
fn after_value(text: &str) -> Option<&str> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return text.get(at + 1..),
            b'\\' => match bytes.next()?.1 {
                b'\\' | b'"' | b'n' => {}
                _ => return None,
            },
            _ => {}
        }
    }
    None
}

/// Stricter than Rust's parser, which accepts "infinity", for example.
fn is_number(text: &str) -> bool {
    matches!(text, "NaN" | "+Inf" | "-Inf" | "inf" | "-inf")
        || (text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
            && text.parse::<f64>().is_ok())
}

/// Returns the family's index and, for a histogram, the suffix of the series.
fn family_of(name: &str) -> Option<(usize, Option<&'static str>)> {
    if let Some(found) = index_of(name) {
        return (ALL.get(found)?.kind != MetricType::Histogram).then_some((found, None));
    }
    let part = ["_bucket", "_sum", "_count"].into_iter().find(|part| name.ends_with(part))?;
    let found = index_of(name.strip_suffix(part)?)?;
    (ALL.get(found)?.kind == MetricType::Histogram).then_some((found, Some(part)))
}

fn index_of(name: &str) -> Option<usize> {
    static INDEX: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();
    let index = INDEX.get_or_init(|| ALL.iter().enumerate().map(|(at, entry)| (entry.name, at)).collect());
    index.get(name).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metrics::descriptors;

    fn aggregated(texts: &[&str]) -> String {
        let mut gathering = MetricsAggregator::new();
        for (node, text) in texts.iter().enumerate() {
            gathering.add(node as u64, text.as_bytes()).expect("in order");
        }
        gathering.finish()
    }

    #[test]
    fn families_come_once_with_the_samples_of_all() {
        let zero = "# HELP grete_lag_records whatever\n# TYPE grete_lag_records counter\n\
                    grete_lag_records{handler=\"f\",topic=\"a\\\"b\",partition=\"0\"} 3\n\
                    grete_live 1\n\
                    grete_lag_records{handler=\"f\",topic=\"t\",partition=\"1\"} 4.5e3\n";
        let one = "grete_live 0\n\ngrete_lag_records{handler=\"}\",topic=\"\",partition=\"2\"} 0\n";
        assert_eq!(
            aggregated(&[zero, one]),
            "# HELP grete_live What /livez says: 1 alive, 0 not.\n# TYPE grete_live gauge\n\
             grete_live{node=\"0\"} 1\ngrete_live{node=\"1\"} 0\n\
             # HELP grete_lag_records Records of the partition that are not done.\n# TYPE grete_lag_records gauge\n\
             grete_lag_records{node=\"0\",handler=\"f\",topic=\"a\\\"b\",partition=\"0\"} 3\n\
             grete_lag_records{node=\"0\",handler=\"f\",topic=\"t\",partition=\"1\"} 4.5e3\n\
             grete_lag_records{node=\"1\",handler=\"}\",topic=\"\",partition=\"2\"} 0\n"
        );
    }

    #[test]
    fn a_histogram_is_one_family() {
        let text = "grete_handler_duration_seconds_bucket{handler=\"f\",le=\"0.1\"} 1\n\
                    grete_handler_duration_seconds_bucket{handler=\"f\",le=\"+Inf\"} 2\n\
                    grete_handler_duration_seconds_sum{handler=\"f\"} 7.25\n\
                    grete_handler_duration_seconds_count{handler=\"f\"} 2\n";
        let all = aggregated(&[text, text]);
        assert_eq!(all.matches("# TYPE grete_handler_duration_seconds histogram\n").count(), 1);
        assert!(all.contains("_bucket{node=\"1\",handler=\"f\",le=\"+Inf\"} 2\n"), "{all}");
        assert!(all.contains("_sum{node=\"0\",handler=\"f\"} 7.25\n"), "{all}");
    }

    #[test]
    fn its_own_samples_are_escaped() {
        let mut gathering = MetricsAggregator::new();
        gathering.add_own_sample(descriptors::SWARM_EXITS, &["3", "a\\b\"c\nd"], 2.0);
        gathering.add_own_sample(descriptors::SWARM_MEMORY, &[], 0.5);
        let text = gathering.finish();
        assert!(text.contains("grete_swarm_exits_total{node=\"3\",reason=\"a\\\\b\\\"c\\nd\"} 2\n"), "{text}");
        assert!(text.ends_with("grete_swarm_supervisor_memory_bytes 0.5\n"), "{text}");
    }

    #[test]
    fn text_with_an_unknown_line_is_rejected_as_a_whole() {
        for line in [
            "grete_live{node=\"7\"} 1",
            "grete_lag_records{node=\"7\",handler=\"f\",topic=\"t\",partition=\"1\"} 1",
            "grete_lag_records{handler=\"f\",topic=\"t\",partition=\"1\",node=\"7\"} 1",
            "grete_lag_records{topic=\"t\",handler=\"f\",partition=\"1\"} 1",
            "grete_lag_records{handler=\"f\"} 1",
            "grete_lag_records{handler=\"f\",topic=\"t\",partition=\"1\"} 1 1700000000",
            "grete_lag_records{handler=\"f\",topic=\"t\",partition=\"1} 1",
            "grete_lag_records{handler=\"\\x\",topic=\"t\",partition=\"1\"} 1",
            "grete_lag_records{handler=\"f\",topic=\"t\",partition=\"1\\",
            "grete_lag_records 1",
            "grete_swarm_restarts_total{node=\"0\"} 1",
            "grete_swarm_supervisor_memory_bytes 1",
            "grete_handler_duration_seconds{handler=\"f\"} 1",
            "grete_handler_duration_seconds_bucket{handler=\"f\"} 1",
            "grete_live_count 1",
            "up 1",
            "grete_live",
            "grete_live ",
            "grete_live  1",
            "grete_live infinity",
            "grete_live 0x1",
            "grete_live 1 ",
            " grete_live 1",
            "<html>",
        ] {
            let mut gathering = MetricsAggregator::new();
            gathering.add(0, b"grete_live 1\n").expect("in order");
            let before = gathering.samples.clone();
            let text = format!("grete_ready 1\n{line}\ngrete_workers 3\n");
            assert_eq!(gathering.add(1, text.as_bytes()), Err(InvalidExposition::BadLine(2)), "{line}");
            assert_eq!(gathering.samples, before, "{line}");
        }
        assert_eq!(MetricsAggregator::new().add(0, b"grete_live 1\n\xff"), Err(InvalidExposition::NotUtf8));
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let mut gathering = MetricsAggregator::new();
        let line = format!("grete_jobs_total{{handler=\"{}\"}} 1\n", "x".repeat(1000));
        let text = line.repeat(500);
        let taken = (0..1000).take_while(|node| gathering.add(*node, text.as_bytes()).is_ok()).count();
        assert!(taken > 10 && taken < 40, "{taken}");
        assert_eq!(gathering.add(1000, text.as_bytes()), Err(InvalidExposition::TooLarge));
        gathering.add(1001, b"grete_live 1\n").expect("there is room for a little");
        assert!(gathering.finish().len() <= MAX_AGGREGATED_BYTES + 256 * ALL.len());
    }

    proptest! {
        #[test]
        fn arbitrary_input_yields_valid_lines(bytes: Vec<u8>, lines in "(grete_(live|lag_records|jobs_total)[ -~]{0,40}\n){0,5}") {
            let mut gathering = MetricsAggregator::new();
            let _ = gathering.add(5, &bytes);
            let _ = gathering.add(6, lines.as_bytes());
            for line in gathering.finish().lines().filter(|line| !line.starts_with('#')) {
                let (name, rest) = line.split_once("{node=\"").expect("a label");
                prop_assert!(family_of(name).is_some());
                prop_assert!(rest.starts_with("6\"") || rest.starts_with("5\""));
            }
        }

        #[test]
        fn any_value_of_a_label_comes_through(value: String) {
            let mut own = MetricsAggregator::new();
            own.add_own_sample(descriptors::JOBS, &[&value], 1.0);
            let own = own.finish();
            let mut gathering = MetricsAggregator::new();
            prop_assert_eq!(gathering.add(0, own.as_bytes()), Ok(()));
            prop_assert_eq!(gathering.finish().replace("node=\"0\",", ""), own);
        }
    }
}
