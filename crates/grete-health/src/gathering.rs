//! The metrics of many processes as one text: each family once, with its help, and `node` before the other labels.
//!
//! What the processes say is not to be trusted. Only what [`catalogue`] has is taken, in the form in which
//! [`crate::exposition`] writes it: names, kinds, helps and names of labels are never theirs, so that nobody can tell for another
//! node or redefine a family. Of a text with anything else in it, nothing is taken.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use crate::metrics::catalogue::{ALL, Entry, Kind};

/// Bytes of the whole text, at most.
pub const MAX_GATHERED: usize = 16 << 20;
/// How the supervisor's own begin, which no node tells.
const OWN: &str = "grete_swarm_";

/// A text that is being put together.
#[derive(Debug, Default)]
pub struct Gathering {
    /// Samples of each family, in the catalogue's order.
    samples: Vec<String>,
    bytes: usize,
}

/// Why nothing of a text was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is not UTF-8.
    NoText,
    /// The line of this number, from 1, is none that Grete writes.
    Line(usize),
    /// With it, all would be too long.
    TooLong,
}

impl Gathering {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self { samples: vec![String::new(); ALL.len()], bytes: 0 }
    }

    /// Takes what a node says of itself; all of it, or nothing.
    ///
    /// # Errors
    /// Why nothing was taken.
    pub fn add(&mut self, node: u64, text: &[u8]) -> Result<(), Refused> {
        let text = str::from_utf8(text).map_err(|_| Refused::NoText)?;
        let before: Vec<usize> = self.samples.iter().map(String::len).collect();
        let taken = self.take(node, text);
        if taken.is_err() {
            for (samples, length) in self.samples.iter_mut().zip(before) {
                samples.truncate(length);
            }
        }
        self.bytes = self.samples.iter().map(String::len).sum();
        taken
    }

    /// A sample of the process's own. `labels`: their values, as many as the entry has names.
    pub fn tell(&mut self, entry: &'static Entry, labels: &[&str], value: f64) {
        let Some(samples) = index_of(entry.name).and_then(|at| self.samples.get_mut(at)) else { return };
        samples.push_str(entry.name);
        for (at, (name, value)) in entry.labels.iter().zip(labels).enumerate() {
            samples.push_str(if at == 0 { "{" } else { "," });
            samples.push_str(name);
            samples.push_str("=\"");
            for letter in value.chars() {
                match letter {
                    '\\' => samples.push_str("\\\\"),
                    '"' => samples.push_str("\\\""),
                    '\n' => samples.push_str("\\n"),
                    other => samples.push(other),
                }
            }
            samples.push('"');
        }
        samples.push_str(if entry.labels.is_empty() { " " } else { "} " });
        let _ = writeln!(samples, "{value}"); // a String takes all
    }

    /// The text: families in the catalogue's order, those without a sample left out.
    #[must_use]
    pub fn finish(self) -> String {
        let mut text = String::with_capacity(self.bytes + 256 * ALL.len());
        for (entry, samples) in ALL.iter().zip(self.samples).filter(|(_, samples)| !samples.is_empty()) {
            let _ = writeln!(text, "# HELP {} {}\n# TYPE {} {}", entry.name, entry.help, entry.name, entry.kind.name());
            text.push_str(&samples);
        }
        text
    }

    fn take(&mut self, node: u64, text: &str) -> Result<(), Refused> {
        let label = format!("{{node=\"{node}\"");
        let mut bytes = self.bytes;
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue; // the catalogue's words are taken
            }
            let sample = Sample::parse(line).ok_or(Refused::Line(number + 1))?;
            let samples = self.samples.get_mut(sample.family).ok_or(Refused::Line(number + 1))?;
            let comma = if sample.labels.is_empty() { "" } else { "," };
            for part in [sample.name, &label, comma, sample.labels, "} ", sample.value, "\n"] {
                samples.push_str(part);
                bytes += part.len();
            }
            if bytes > MAX_GATHERED {
                return Err(Refused::TooLong);
            }
        }
        Ok(())
    }
}

/// A line that is in order, in pieces.
struct Sample<'a> {
    /// In the catalogue.
    family: usize,
    /// The family's, or one of the three that a histogram has.
    name: &'a str,
    /// What is between the braces.
    labels: &'a str,
    value: &'a str,
}

impl<'a> Sample<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at_checked(end)?;
        let (family, part) = family_of(name)?;
        let entry = ALL.get(family).filter(|entry| !entry.name.starts_with(OWN))?;
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

/// What follows the labels, if it is these, in this order.
fn labels_end(mut text: &str, names: impl Iterator<Item = &'static str>) -> Option<&str> {
    for (at, name) in names.enumerate() {
        if at > 0 {
            text = text.strip_prefix(',')?;
        }
        text = after_value(text.strip_prefix(name)?.strip_prefix("=\"")?)?;
    }
    Some(text)
}

/// What follows a label's value and its quotation mark.
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

/// Rust takes more for a number than the format does: "infinity", say.
fn is_number(text: &str) -> bool {
    matches!(text, "NaN" | "+Inf" | "-Inf" | "inf" | "-inf")
        || (text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
            && text.parse::<f64>().is_ok())
}

/// The family and, of a histogram, which of its parts.
fn family_of(name: &str) -> Option<(usize, Option<&'static str>)> {
    if let Some(found) = index_of(name) {
        return (ALL.get(found)?.kind != Kind::Histogram).then_some((found, None));
    }
    let part = ["_bucket", "_sum", "_count"].into_iter().find(|part| name.ends_with(part))?;
    let found = index_of(name.strip_suffix(part)?)?;
    (ALL.get(found)?.kind == Kind::Histogram).then_some((found, Some(part)))
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
    use crate::metrics::catalogue;

    fn gathered(texts: &[&str]) -> String {
        let mut gathering = Gathering::new();
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
            gathered(&[zero, one]),
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
        let all = gathered(&[text, text]);
        assert_eq!(all.matches("# TYPE grete_handler_duration_seconds histogram\n").count(), 1);
        assert!(all.contains("_bucket{node=\"1\",handler=\"f\",le=\"+Inf\"} 2\n"), "{all}");
        assert!(all.contains("_sum{node=\"0\",handler=\"f\"} 7.25\n"), "{all}");
    }

    #[test]
    fn its_own_samples_are_escaped() {
        let mut gathering = Gathering::new();
        gathering.tell(catalogue::SWARM_DEATHS, &["3", "a\\b\"c\nd"], 2.0);
        gathering.tell(catalogue::SWARM_MEMORY, &[], 0.5);
        let text = gathering.finish();
        assert!(text.contains("grete_swarm_deaths_total{node=\"3\",reason=\"a\\\\b\\\"c\\nd\"} 2\n"), "{text}");
        assert!(text.ends_with("grete_swarm_supervisor_memory_bytes 0.5\n"), "{text}");
    }

    #[test]
    fn of_a_text_with_anything_else_in_it_nothing_is_taken() {
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
            let mut gathering = Gathering::new();
            gathering.add(0, b"grete_live 1\n").expect("in order");
            let before = gathering.samples.clone();
            let text = format!("grete_ready 1\n{line}\ngrete_workers 3\n");
            assert_eq!(gathering.add(1, text.as_bytes()), Err(Refused::Line(2)), "{line}");
            assert_eq!(gathering.samples, before, "{line}");
        }
        assert_eq!(Gathering::new().add(0, b"grete_live 1\n\xff"), Err(Refused::NoText));
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let mut gathering = Gathering::new();
        let line = format!("grete_jobs_total{{handler=\"{}\"}} 1\n", "x".repeat(1000));
        let text = line.repeat(500);
        let taken = (0..1000).take_while(|node| gathering.add(*node, text.as_bytes()).is_ok()).count();
        assert!(taken > 10 && taken < 40, "{taken}");
        assert_eq!(gathering.add(1000, text.as_bytes()), Err(Refused::TooLong));
        gathering.add(1001, b"grete_live 1\n").expect("there is room for a little");
        assert!(gathering.finish().len() <= MAX_GATHERED + 256 * ALL.len());
    }

    proptest! {
        #[test]
        fn whatever_comes_leaves_lines_that_are_in_order(bytes: Vec<u8>, lines in "(grete_(live|lag_records|jobs_total)[ -~]{0,40}\n){0,5}") {
            let mut gathering = Gathering::new();
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
            let mut own = Gathering::new();
            own.tell(catalogue::JOBS, &[&value], 1.0);
            let own = own.finish();
            let mut gathering = Gathering::new();
            prop_assert_eq!(gathering.add(0, own.as_bytes()), Ok(()));
            prop_assert_eq!(gathering.finish().replace("node=\"0\",", ""), own);
        }
    }
}
