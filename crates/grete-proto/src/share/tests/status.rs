//! Reasons why no records of a partition are acquired.

use grete_wire::ErrorCode;

use super::leader::{Answer, Harness, acked, acquired};
use crate::ids::TopicPartition;
use crate::partition::fetch_wait::FetchWait;
use crate::request::RequestError;
use crate::share::ShareEvent;

impl Harness {
    fn waits(&self) -> Vec<&'static str> {
        let reason = |slot| self.acquirer.facts(self.now, slot, &self.view, &self.table).reason();
        let waits = self.slots.iter().map(|slot| reason(*slot).map_or("", FetchWait::name)).collect();
        assert!(self.acquirer.is_hindered(self.now) || waits == vec![""; self.slots.len()], "{waits:?}");
        waits
    }
}

/// Two partitions, of the nodes 1 and 2.
fn planned() -> Harness {
    let mut h = Harness::new(2, 8);
    h.step(ShareEvent::Plan);
    h
}

#[test]
fn a_leader_that_does_not_answer_is_named_until_it_does() {
    let mut h = planned();
    let (one, two) = (h.next(), h.next());
    h.answer(&two, &[]);
    let two = h.next();
    h.advance(5900);
    assert_eq!((h.waits(), h.acquirer.is_hindered(h.now)), (vec!["", ""], false));
    h.answer(&two, &[]);
    let two = h.next();
    h.advance(200);
    assert_eq!(h.waits(), ["refused", ""]);
    h.fail(&one, RequestError::TimedOut);
    assert_eq!(h.waits(), ["refused", ""]);
    h.advance(1000);
    let one = h.next();
    assert_eq!(h.waits(), ["refused", ""], "the next request is not answered yet");
    h.answer(&one, &[acquired(0, &[(0, 0, 1)])]);
    h.answer(&two, &[]);
    assert_eq!((h.waits(), h.acquirer.is_hindered(h.now)), (vec!["", ""], false));
}

#[test]
fn a_leader_that_refuses_a_partition_or_its_acknowledgements_is_named_with_the_code() {
    let mut h = planned();
    let one = h.next();
    let code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    h.answer(&one, &[Answer { error: code.0, ..acked(0) }]);
    assert_eq!(h.waits(), ["refused", ""]);
    let wait = h.acquirer.facts(h.now, h.slots[0], &h.view, &h.table).reason();
    assert_eq!(wait, Some(FetchWait::Refused { node: 1, code }));
    h.advance(1000);
    let one = h.sent.iter().position(|sent| sent.node() == 1).map(|at| h.sent.remove(at)).unwrap();
    h.answer(&one, &[acquired(0, &[(0, 0, 1)])]);
    assert_eq!(h.waits(), ["", ""]);
    h.acknowledge(0, 0, 0, crate::share::AckType::Accept);
    let one = h.sent.iter().position(|sent| sent.node() == 1).map(|at| h.sent.remove(at)).unwrap();
    h.answer(&one, &[]);
    let one = h.sent.iter().position(|sent| sent.node() == 1).map(|at| h.sent.remove(at)).unwrap();
    assert_eq!(one.acks().len(), 1);
    h.answer(&one, &[Answer { ack_error: code.0, ..acked(0) }]);
    assert_eq!(h.waits(), ["refused", ""], "the acknowledgement is not stored");
    // A session that is refused holds all of its partitions back.
    let mut h = planned();
    let one = h.next();
    h.answer_with(&one, ErrorCode::SHARE_SESSION_LIMIT_REACHED, &[]);
    assert_eq!(h.waits(), ["refused", ""]);
}

#[test]
fn a_missing_leader_and_a_missing_connection_are_named() {
    let mut h = planned();
    let (one, _) = (h.next(), h.next());
    h.fail(&one, RequestError::Disconnected);
    h.view.set_connected(1, false);
    h.step(ShareEvent::NodeLost(1));
    h.advance(3000);
    assert_eq!(h.waits(), ["no_connection", ""]);
    h.view.set_leader(&TopicPartition::new("t", 1), None);
    h.step(ShareEvent::Plan);
    assert_eq!(h.waits(), ["no_connection", "no_leader"]);
    h.view.set_connected(1, true);
    h.step(ShareEvent::NodeReady(1));
    let one = h.next();
    h.answer(&one, &[]);
    assert_eq!(h.waits(), ["", "no_leader"]);
}

/// Without room for records the member asks no leader for any: a lost connection is not missed.
#[test]
fn a_connection_of_which_nothing_is_wanted_is_not_missed() {
    let mut h = Harness::new(2, 0);
    h.step(ShareEvent::Plan);
    h.view.set_connected(1, false);
    h.step(ShareEvent::NodeLost(1));
    h.advance(3000);
    assert_eq!(h.waits(), ["", ""]);
}
