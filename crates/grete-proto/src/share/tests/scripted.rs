//! The acquirer against a leader whose answers a test writes.

use grete_wire::ErrorCode;

use super::leader::{Answer, Harness, LOCK_MS, Sent, TOPIC_ID, acked, acquired, handed_out};
use crate::ids::TopicPartition;
use crate::request::RequestError;
use crate::share::{AckType, ShareEvent, ShareLogEvent};

const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const RENEW: i8 = 4;

fn planned(partitions: i32, concurrency: usize) -> Harness {
    let mut h = Harness::new(partitions, concurrency);
    h.step(ShareEvent::Plan);
    h
}

#[test]
fn no_more_records_are_acquired_than_can_be_processed_at_once() {
    let mut h = planned(1, 4);
    let first = h.next();
    let Sent::Fetch(_, 1, request) = &first else { panic!("{first:?}") };
    assert_eq!((request.share_session_epoch, request.max_records, request.share_acquire_mode), (0, 4, 1));
    assert_eq!(request.topics[0].partitions[0].partition_index, 0);
    h.answer(&first, &[acquired(0, &[(10, 12, 1)])]);
    assert_eq!(handed_out(&h.data), [(10, 1), (11, 1), (12, 1)]);
    let second = h.next();
    let Sent::Fetch(_, 1, request) = &second else { panic!("{second:?}") };
    // The session knows the partition.
    assert_eq!((request.share_session_epoch, request.max_records, request.topics.len()), (1, 1, 0));
    h.answer(&second, &[acquired(0, &[(13, 13, 1)])]);
    assert!(h.sent.is_empty(), "nothing can be processed: {:?}", h.sent);
    // What was finished lately may be held in reserve.
    h.acknowledge(0, 10, 11, AckType::Accept);
    let third = h.next();
    let Sent::Fetch(_, 1, request) = &third else { panic!("{third:?}") };
    assert_eq!((request.max_records, third.acks()), (4, vec![(0, 10, 11, ACCEPT)]));
}

#[test]
fn one_request_is_in_flight_and_a_busy_member_lets_no_broker_wait_for_long() {
    let mut h = planned(1, 2);
    let first = h.next();
    let wait = |sent: &Sent| match sent {
        Sent::Fetch(_, _, request) => request.max_wait_ms,
        Sent::Acknowledge(..) => panic!("{sent:?}"),
    };
    assert_eq!(wait(&first), 500);
    h.answer(&first, &[acquired(0, &[(0, 0, 1)])]);
    let waiting = h.next();
    assert_eq!(wait(&waiting), 100);
    h.acknowledge(0, 0, 0, AckType::Release);
    h.advance(90);
    assert!(h.sent.is_empty(), "the broker would refuse the answer to the waiting request");
    h.answer(&waiting, &[]);
    let next = h.next();
    assert_eq!((waiting.epoch(), next.epoch(), next.acks()), (1, 2, vec![(0, 0, 0, RELEASE)]));
    assert_eq!(wait(&next), 500, "nothing is held");
}

#[test]
fn locks_are_renewed_after_half_of_their_time() {
    let mut h = planned(1, 2);
    let first = h.next();
    h.answer(&first, &[acquired(0, &[(0, 1, 1)])]);
    h.acknowledge(0, 1, 1, AckType::Accept);
    let second = h.next();
    h.answer(&second, &[acked(0)]);
    let waiting = h.next();
    h.answer(&waiting, &[]);
    let waiting = h.next();
    h.advance(510);
    assert!(h.sent.is_empty());
    h.answer(&waiting, &[]);
    let renewal = h.next();
    assert_eq!(renewal.acks(), [(0, 0, 0, RENEW)]);
    let Sent::Acknowledge(_, _, request) = &renewal else { panic!("{renewal:?}") };
    assert!(request.is_renew_ack);
    // The lock had ended all the same: the handler goes on, and its end is of no use.
    h.answer(&renewal, &[Answer { ack_error: ErrorCode::INVALID_RECORD_STATE.0, ..acked(0) }]);
    assert!(
        matches!(h.log[..], [ShareLogEvent::LocksLost { first: 0, records: 1, uncertain: false, .. }]),
        "{:?}",
        h.log
    );
    h.acknowledge(0, 0, 0, AckType::Accept);
    let next = h.next();
    assert_eq!(next.acks(), []);
}

#[test]
fn a_refused_acknowledgement_takes_no_other_with_it() {
    let mut h = planned(1, 8);
    let first = h.next();
    h.answer(&first, &[acquired(0, &[(0, 7, 1)])]);
    h.acknowledge(0, 0, 7, AckType::Accept);
    let (mut accepted, mut asked) = (Vec::new(), Vec::new());
    for _ in 0..12 {
        if h.sent.is_empty() {
            h.advance(600);
        }
        if h.sent.is_empty() {
            break;
        }
        let request = h.next();
        let acks = request.acks();
        let offsets: Vec<i64> = acks.iter().flat_map(|(_, first, last, _)| *first..=*last).collect();
        asked.push(offsets.clone());
        if offsets.contains(&3) {
            h.answer(&request, &[Answer { ack_error: ErrorCode::INVALID_RECORD_STATE.0, ..acked(0) }]);
        } else {
            accepted.extend(offsets);
            h.answer(&request, &[acked(0)]);
        }
    }
    accepted.sort_unstable();
    assert_eq!(accepted, [0, 1, 2, 4, 5, 6, 7], "{asked:?}");
    assert!(matches!(h.log[..], [ShareLogEvent::LocksLost { first: 3, records: 1, .. }]), "{:?}", h.log);
}

#[test]
fn a_lost_session_is_opened_again_and_the_acknowledgements_go_along() {
    let mut h = planned(1, 4);
    let first = h.next();
    h.answer(&first, &[acquired(0, &[(0, 1, 1)])]);
    let second = h.next();
    h.acknowledge(0, 0, 0, AckType::Accept);
    h.answer_with(&second, ErrorCode::SHARE_SESSION_NOT_FOUND, &[]);
    let opening = h.next();
    assert_eq!((opening.epoch(), opening.acks()), (0, vec![]));
    // The leader hands out what the lost session held; the handler of 1 still runs, and does not get it twice.
    h.answer(&opening, &[acquired(0, &[(1, 1, 2), (2, 2, 1)])]);
    assert_eq!(handed_out(&h.data), [(0, 1), (1, 1), (2, 1)]);
    let next = h.next();
    assert_eq!((next.epoch(), next.acks()), (1, vec![(0, 0, 0, ACCEPT)]));
}

#[test]
fn a_request_without_an_answer_is_repeated() {
    let mut h = planned(1, 1);
    let first = h.next();
    h.answer(&first, &[acquired(0, &[(0, 0, 1)])]);
    h.acknowledge(0, 0, 0, AckType::Accept);
    let second = h.next();
    assert_eq!(second.acks(), [(0, 0, 0, ACCEPT)]);
    h.fail(&second, RequestError::Disconnected);
    h.step(ShareEvent::NodeLost(1));
    h.advance(300);
    let opening = h.next();
    h.answer(&opening, &[acked(0)]);
    let again = h.next();
    assert_eq!(again.acks(), [(0, 0, 0, ACCEPT)]);
    // The broker had executed the first one.
    h.answer(&again, &[Answer { ack_error: ErrorCode::INVALID_RECORD_STATE.0, ..acked(0) }]);
    assert!(matches!(h.log[..], [ShareLogEvent::LocksLost { uncertain: true, .. }]), "{:?}", h.log);
}

#[test]
fn the_close_sends_what_is_left_and_ends_the_sessions() {
    let mut h = planned(2, 2);
    let (one, two) = (h.next(), h.next());
    assert_eq!((one.node(), two.node()), (1, 2));
    h.answer(&one, &[acquired(0, &[(0, 0, 1)])]);
    h.answer(&two, &[]);
    let waiting = std::mem::take(&mut h.sent);
    h.acknowledge(0, 0, 0, AckType::Accept);
    h.step(ShareEvent::Close);
    // A waiting fetch may still acquire: the session ends behind its answer.
    assert!(h.sent.is_empty());
    for request in &waiting {
        h.answer(request, &[acquired(i32::from(request.node() == 2), &[(5, 5, 1)])]);
    }
    for _ in 0..2 {
        let end = h.next();
        assert_eq!(end.epoch(), -1);
        assert_eq!(end.acks(), if end.node() == 1 { vec![(0, 0, 0, ACCEPT)] } else { vec![] });
        assert!(!h.closed);
        h.answer(&end, &[]);
    }
    assert!(h.closed && h.sent.is_empty());
}

#[test]
fn what_a_revoked_partition_still_holds_is_acknowledged() {
    let mut h = planned(1, 2);
    let first = h.next();
    h.answer(&first, &[acquired(0, &[(0, 1, 1)])]);
    let slot = h.slots[0];
    h.step(ShareEvent::PartitionsRemoved(vec![slot]));
    h.acknowledge(0, 0, 0, AckType::Accept);
    h.acknowledge(0, 1, 1, AckType::Release);
    let mut acks = Vec::new();
    for _ in 0..3 {
        if h.sent.is_empty() {
            h.advance(100);
        }
        if h.sent.is_empty() {
            break;
        }
        let request = h.next();
        acks.extend(request.acks());
        h.answer(&request, &[acked(0)]);
    }
    assert_eq!(acks, [(0, 0, 0, ACCEPT), (0, 1, 1, RELEASE)]);
}

/// Gives a member two records, takes the leader away, and lets the handler of one end.
fn without_a_leader() -> Harness {
    let mut h = planned(1, 2);
    let first = h.next();
    h.answer(&first, &[acquired(0, &[(0, 1, 1)])]);
    h.view.set_leader(&TopicPartition::new("t", 0), None);
    h.acknowledge(0, 0, 0, AckType::Accept);
    assert!(!h.acquirer.is_settled());
    h
}

#[test]
fn acknowledgements_of_a_topic_that_is_gone_keep_no_commit_waiting() {
    let mut h = without_a_leader();
    h.view.set_topic_id("t", TOPIC_ID + 1);
    h.step(ShareEvent::Plan);
    assert!(h.acquirer.is_settled());
    assert_eq!(h.acquirer.stats().locks_lost, 1);
    let lost = |event: &ShareLogEvent| matches!(event, ShareLogEvent::LocksLost { records: 1, first: 0, .. });
    assert!(h.log.iter().any(lost), "{:?}", h.log);
}

#[test]
fn acknowledgements_wait_for_a_leader_until_the_locks_have_ended() {
    let mut h = without_a_leader();
    h.advance(LOCK_MS as u64 - 1);
    assert!(!h.acquirer.is_settled() && h.acquirer.stats().locks_lost == 0);
    h.advance(2);
    assert!(h.acquirer.is_settled() && h.acquirer.stats().locks_lost == 1);
}

#[test]
fn acknowledgements_that_are_refused_for_a_lock_are_given_up() {
    let mut h = planned(1, 1);
    let first = h.next();
    h.answer(&first, &[acquired(0, &[(0, 0, 1)])]);
    h.acknowledge(0, 0, 0, AckType::Accept);
    let mut refused = 0;
    for _ in 0..100 {
        while !h.sent.is_empty() {
            let request = h.next();
            refused += request.acks().len();
            let (error, ack_error) = (ErrorCode::UNKNOWN_TOPIC_ID.0, ErrorCode::UNKNOWN_TOPIC_ID.0);
            h.answer(&request, &[Answer { partition: 0, error, ack_error, ..Answer::default() }]);
        }
        h.advance(20);
    }
    assert!(h.acquirer.is_settled() && refused > 1, "{refused}");
    assert_eq!(h.acquirer.stats().locks_lost, 1);
}

#[test]
fn a_close_waits_five_seconds_for_a_leader_that_hangs() {
    let mut h = planned(1, 1);
    let first = h.next();
    h.answer(&first, &[acquired(0, &[(0, 0, 1)])]);
    h.acknowledge(0, 0, 0, AckType::Accept);
    h.step(ShareEvent::Close);
    h.advance(4_900);
    assert!(!h.closed);
    h.advance(200);
    assert!(h.closed);
}

/// The time without a delivery begins anew after an answer, even one that refuses.
#[test]
fn a_refused_acknowledgement_does_not_shorten_the_life_of_later_ones() {
    let mut h = planned(1, 1);
    let first = h.next();
    h.answer(&first, &[acquired(0, &[(0, 0, 1)])]);
    h.acknowledge(0, 0, 0, AckType::Accept);
    let lost = h.next();
    h.fail(&lost, RequestError::Disconnected);
    let state = ErrorCode::INVALID_RECORD_STATE.0;
    let accepts = |h: &mut Harness, answer: &dyn Fn(&mut Harness, &Sent)| {
        for _ in 0..20 {
            h.advance(100);
            while !h.sent.is_empty() {
                let request = h.next();
                if !request.acks().is_empty() {
                    return answer(h, &request);
                }
                h.answer(&request, &[]);
            }
        }
        panic!("no acknowledgement is sent again");
    };
    accepts(&mut h, &|h, request| h.answer(request, &[Answer { partition: 0, ack_error: state, ..Answer::default() }]));
    assert_eq!(h.acquirer.stats().locks_lost, 1);
    h.advance(2 * LOCK_MS as u64);
    while h.data.last().is_none_or(|_| handed_out(&h.data).len() < 2) {
        let request = h.next();
        h.answer(&request, &[acquired(0, &[(1, 1, 1)])]);
    }
    h.acknowledge(0, 1, 1, AckType::Accept);
    accepts(&mut h, &|h, request| h.fail(request, RequestError::Disconnected));
    h.advance(10);
    assert_eq!(h.acquirer.stats().locks_lost, 1, "the second one has a lock's time of its own");
}

#[test]
fn slow_handlers_hold_nothing_in_reserve() {
    let mut h = planned(1, 4);
    let first = h.next();
    h.answer(&first, &[acquired(0, &[(0, 3, 1)])]);
    for _ in 0..4 {
        h.advance(400);
        while !h.sent.is_empty() {
            let renewal = h.next();
            h.answer(&renewal, &[acked(0)]);
        }
    }
    h.acknowledge(0, 0, 3, AckType::Accept);
    let next = h.next();
    let Sent::Fetch(_, _, request) = &next else { panic!("{next:?}") };
    assert_eq!(request.max_records, 4);
}

#[test]
fn a_hostile_response_reserves_nothing() {
    for ranges in [vec![(0, i64::MAX, 1)], vec![(5, 4, 1)], vec![(0, 5, 1), (3, 8, 1)], vec![(-1, 3, 1)]] {
        let mut h = planned(1, 2);
        let first = h.next();
        h.answer_hostile(&first, &ranges);
        assert!(matches!(h.log[..], [ShareLogEvent::ImplausibleResponse { node: 1 }]), "{ranges:?}: {:?}", h.log);
        assert!(h.data.is_empty());
    }
}

#[test]
fn a_partition_that_the_metadata_lacks_is_looked_up_until_it_is_there() {
    let mut h = planned(1, 4);
    let first = h.next();
    assert_eq!(h.refreshes, 0);
    let new = TopicPartition::new("t", 1);
    let slot = h.table.add(new.clone(), 2);
    h.slots.push(slot);
    h.step(ShareEvent::Plan);
    h.advance(2500);
    assert_eq!(h.refreshes, 3, "at once, and after a second each");
    h.view.set_leader(&new, Some((1, 0)));
    h.answer(&first, &[]);
    h.advance(2000);
    let second = h.next();
    let Sent::Fetch(_, 1, request) = &second else { panic!("{second:?}") };
    assert_eq!((request.topics[0].partitions[0].partition_index, h.refreshes), (1, 3));
}

#[test]
fn an_old_lock_that_is_gone_keeps_nothing_from_being_acquired() {
    let mut h = planned(1, 2);
    let first = h.next();
    h.advance(50);
    h.answer(&first, &[acquired(0, &[(0, 0, 1)])]);
    let second = h.next();
    h.advance(400);
    h.answer(&second, &[acquired(0, &[(1, 1, 1)])]);
    // Both are held: nothing is asked for. The older one ends.
    assert!(h.sent.is_empty());
    h.acknowledge(0, 0, 0, AckType::Accept);
    let third = h.next();
    h.advance(150);
    h.answer(&third, &[acked(0)]);
    let Sent::Fetch(..) = h.next() else { panic!("half of the first lock is over, and that record is done") };
}

/// The leader says nothing: another member has done the records meanwhile, or none.
#[test]
fn locks_that_end_while_the_process_stands_still_are_named_once() {
    let mut h = planned(1, 4);
    let first = h.next();
    h.answer(&first, &[acquired(0, &[(0, 2, 1)])]);
    let waiting = h.next();
    h.now += 3 * u64::try_from(LOCK_MS).unwrap() * crate::time::MILLI;
    h.acknowledge(0, 0, 0, AckType::Accept);
    h.answer(&waiting, &[]);
    h.advance(10);
    while !h.sent.is_empty() {
        let next = h.next();
        h.answer(&next, &[acked(0)]);
        if matches!(next, Sent::Fetch(..)) && next.acks().is_empty() {
            break;
        }
    }
    h.acknowledge(0, 1, 2, AckType::Accept);
    let late = h.log.iter().map(|event| match event {
        ShareLogEvent::LocksExpired { first, records, .. } => (*first, *records),
        other => panic!("{other:?}"),
    });
    assert_eq!(late.collect::<Vec<_>>(), [(0, 1), (1, 2)]);
}
