//! Topic that takes the reports of a process, without the GIL.

use grete_client::Producer;
use grete_client::produce::AppendAction;
use grete_health::ReportSink;
use grete_wire::records::ProducerRecord;

/// Sink that appends each report to a producer's batches. It never waits: a report that finds no room is dropped, and one
/// of a topic without metadata is queued by the producer.
pub(super) struct KafkaSink {
    producer: Producer,
    topic: String,
    key: Vec<u8>,
}

impl KafkaSink {
    pub(super) fn new(producer: Producer, topic: String, key: Vec<u8>) -> Self {
        Self { producer, topic, key }
    }
}

impl ReportSink for KafkaSink {
    fn send(&mut self, report: &[u8]) -> bool {
        if self.producer.check().is_err() {
            return false;
        }
        let id = self.producer.topic(&self.topic);
        let stamp = self.producer.read_clock();
        let record =
            ProducerRecord { timestamp: stamp.millis, key: Some(&self.key), value: Some(report), headers: &[] };
        let appended = self.producer.accumulator().append_or_queue(stamp.now, id, None, &record).map(|it| it.action);
        let taken = appended.is_ok();
        self.producer.send_or_wake(appended.unwrap_or(AppendAction::Drain));
        taken
    }
}
