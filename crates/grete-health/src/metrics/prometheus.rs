//! Prometheus text format, version 0.0.4.

use std::io::Write;

use crate::escapes;
use crate::metrics::descriptors::MetricDescriptor;
use crate::metrics::{Label, MetricVisitor, Metrics, Value};

/// Content type of the response to a scrape.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes all known metrics. `text`: memory to reuse.
#[must_use]
pub fn write(metrics: Metrics, mut text: Vec<u8>) -> Vec<u8> {
    text.clear();
    let mut writer = PrometheusWriter { text, descriptor: None };
    metrics.visit(&mut writer);
    writer.text
}

struct PrometheusWriter {
    text: Vec<u8>,
    descriptor: Option<&'static MetricDescriptor>,
}

impl MetricVisitor for PrometheusWriter {
    fn family(&mut self, entry: &'static MetricDescriptor) {
        let (name, kind) = (entry.name, entry.kind.name());
        self.descriptor = Some(entry);
        self.print(format_args!("# HELP {name} {}\n# TYPE {name} {kind}\n", entry.help));
    }

    fn sample(&mut self, labels: &[Label<'_>], value: Value<'_>) {
        match value {
            Value::Count(count) => self.line("", labels, None, format_args!("{count}")),
            Value::Number(number) => self.line("", labels, None, format_args!("{number}")),
            Value::Histogram(histogram) => {
                for (bound, count) in histogram.cumulative() {
                    self.line("_bucket", labels, Some(bound), format_args!("{count}"));
                }
                self.line("_sum", labels, None, format_args!("{}", histogram.sum));
                self.line("_count", labels, None, format_args!("{}", histogram.count()));
            }
        }
    }
}

impl PrometheusWriter {
    fn line(&mut self, suffix: &str, labels: &[Label<'_>], bound: Option<f64>, value: std::fmt::Arguments<'_>) {
        let Some(entry) = self.descriptor else { return };
        self.print(format_args!("{}{suffix}", entry.name));
        let mut before = b'{';
        for (name, label) in entry.labels.iter().zip(labels) {
            self.text.push(before);
            before = b',';
            self.print(format_args!("{name}=\""));
            match label {
                Label::Text(text) => self.text.extend_from_slice(escapes::label(text).as_bytes()),
                Label::Number(number) => self.print(format_args!("{number}")),
            }
            self.text.push(b'"');
        }
        if let Some(bound) = bound {
            self.text.push(before);
            before = b',';
            if bound.is_finite() {
                self.print(format_args!("le=\"{bound}\""));
            } else {
                self.print(format_args!("le=\"+Inf\""));
            }
        }
        if before == b',' {
            self.text.push(b'}');
        }
        self.print(format_args!(" {value}\n"));
    }

    fn print(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(text); // a write to a vector cannot fail
    }
}
