//! Model of a broker's produce handler: appends, waits for the replicas, and responds.

use std::borrow::Cow;

use grete_wire::messages::produce::{LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse};
use grete_wire::messages::{ProduceRequest, ProduceResponse};
use grete_wire::{ErrorCode as E, Reader};

use super::brokers::Mishap;
use super::log::{Batch, LogAppendResult};
use super::simulator::{Event, Simulator};
use crate::cluster::test_cluster::{ReceivedRequest, host};
use crate::ids::{ConnId, NodeId, TopicPartition};
use crate::time::MILLI;

#[derive(Debug, Clone, Copy)]
enum State {
    Done(E, i64),
    /// Waits in this epoch until the replicas have everything up to `end`; then responds.
    Waits {
        epoch: i32,
        base: i64,
        end: i64,
        code: E,
    },
}

/// One partition of a request.
#[derive(Debug)]
struct Part {
    /// Name and id of the topic in the request.
    named: (String, u128),
    tp: TopicPartition,
    id: u128,
    state: State,
}

/// A request that waits for the replicas.
#[derive(Debug)]
pub struct Pending {
    pub number: u64,
    pub node: NodeId,
    asked: ReceivedRequest,
    parts: Vec<Part>,
}

impl Simulator {
    /// Handles a produce request. Returns whether a response follows, now or later.
    pub(super) fn produce(&mut self, node: NodeId, asked: ReceivedRequest) -> bool {
        let request = ProduceRequest::decode(asked.version, &mut Reader::new(&asked.body)).unwrap();
        assert!(matches!(request.acks, -1..=1) && request.transactional_id.is_none());
        let (acks, timeout) = (request.acks, u64::from(request.timeout_ms.unsigned_abs()) * MILLI);
        let mut parts = Vec::new();
        for topic in &request.topic_data {
            let known = self.brokers.ids.iter().find(|(name, id)| match asked.version {
                13.. => **id == topic.topic_id,
                _ => **name == topic.name,
            });
            let known = known.map(|(name, id)| (name.clone(), *id));
            for partition in &topic.partition_data {
                let (name, id) = known.clone().unwrap_or_default();
                let tp = TopicPartition::new(name, partition.index);
                assert!(!parts.iter().any(|part: &Part| known.is_some() && part.tp == tp), "{tp} is named twice");
                let batch = Batch::parse(partition.records.as_deref().expect("a batch"));
                let state = self.take(node, acks, &tp, &batch);
                let state = match state {
                    State::Done(E::UNKNOWN_TOPIC_OR_PARTITION, base) if asked.version >= 13 && known.is_none() => {
                        State::Done(E::UNKNOWN_TOPIC_ID, base)
                    }
                    state => state,
                };
                self.trace(|| format!("b{node} {tp} {:?} {:?}: {state:?}", batch.stamp, batch.ids));
                parts.push(Part { named: (topic.name.to_string(), topic.topic_id), tp, id, state });
            }
        }
        drop(request);
        if acks == 0 {
            // acks=0 gets no response; on an error the broker closes the connection.
            if parts.iter().any(|part| !matches!(part.state, State::Done(E::NONE, _))) {
                self.hang_up(asked.conn);
            }
            return false;
        }
        self.sequence += 1;
        let pending = Pending { number: self.sequence, node, asked, parts };
        self.post(self.now + timeout, Event::Late(pending.number));
        self.pending.push(pending);
        self.complete_pending();
        true
    }

    fn take(&mut self, node: NodeId, acks: i16, tp: &TopicPartition, batch: &Batch) -> State {
        if self.brokers.denied.contains(&*tp.topic) {
            return State::Done(E::TOPIC_AUTHORIZATION_FAILED, -1);
        }
        let Some(log) = self.brokers.logs.get_mut(tp) else { return State::Done(E::UNKNOWN_TOPIC_OR_PARTITION, -1) };
        let mishap = self.brokers.mishaps.pop();
        // Without acks=all the leader does not wait for followers, so their errors cannot occur.
        let apart = [E::KAFKA_STORAGE_ERROR, E::UNKNOWN_SERVER_ERROR];
        let mishap = mishap.filter(|mishap| match mishap {
            Mishap::After(code) => acks == -1 || apart.contains(code),
            Mishap::Before(_) => true,
        });
        if let Some(Mishap::Before(code)) = mishap {
            return State::Done(code, -1);
        }
        let before = log.replica.end();
        let appended = log.append(node, self.now, acks, batch);
        let (epoch, after) = (log.epoch, log.replica.end());
        if after > before {
            self.check_new(tp, batch);
            if self.brokers.logs[tp].in_sync == 1 {
                self.replicated(tp, epoch, after);
            } else {
                let at = self.now + self.delay();
                self.post(at, Event::Replicated(tp.clone(), epoch, after));
            }
        }
        match (appended, mishap) {
            (LogAppendResult::Refused(code), _) => State::Done(code, -1),
            (LogAppendResult::At { base, end }, None) if acks == -1 => State::Waits { epoch, base, end, code: E::NONE },
            (LogAppendResult::At { .. }, Some(Mishap::After(code))) => State::Done(code, -1),
            (LogAppendResult::At { base, .. }, _) => State::Done(E::NONE, base),
        }
    }

    pub(super) fn replicated(&mut self, tp: &TopicPartition, epoch: i32, end: i64) {
        if let Some(log) = self.brokers.logs.get_mut(tp) {
            log.replicated(epoch, end);
        }
    }

    /// Handles the timeout of a waiting request.
    pub(super) fn late(&mut self, number: u64) {
        for pending in self.pending.iter_mut().filter(|pending| pending.number == number) {
            for part in &mut pending.parts {
                if let State::Waits { .. } = part.state {
                    part.state = State::Done(E::REQUEST_TIMED_OUT, -1);
                }
            }
        }
        self.complete_pending();
    }

    /// Sends the responses of requests that have finished waiting.
    pub(super) fn complete_pending(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        for waiting in &mut pending {
            for part in &mut waiting.parts {
                let State::Waits { epoch, base, end, code } = part.state else { continue };
                let log = self.brokers.logs.get(&part.tp);
                let log = log.filter(|_| self.brokers.ids.get(&*part.tp.topic) == Some(&part.id));
                let reached = match log {
                    Some(log) => log.reached(waiting.node, epoch, self.now, end),
                    None => Some(E::UNKNOWN_TOPIC_OR_PARTITION),
                };
                if let Some(reached) = reached {
                    let code = if reached == E::NONE { code } else { reached };
                    part.state = State::Done(code, if code == E::NONE { base } else { -1 });
                }
            }
        }
        let over = |waiting: &Pending| waiting.parts.iter().all(|part| matches!(part.state, State::Done(..)));
        let (over, waiting): (Vec<_>, Vec<_>) = pending.into_iter().partition(over);
        self.pending = waiting;
        for pending in over {
            let response = self.response(&pending);
            let frame = pending.asked.encode_response(|version, out| response.encode(version, out));
            self.answer(pending.asked.conn, &pending.asked, frame);
        }
    }

    /// Drops waiting requests of a dead broker or closed connection, without a response.
    pub(super) fn forget_pending(&mut self, gone: impl Fn(NodeId, ConnId) -> bool) {
        self.pending.retain(|pending| !gone(pending.node, pending.asked.conn));
    }

    fn response(&self, pending: &Pending) -> ProduceResponse<'static> {
        let mut response = ProduceResponse { throttle_time_ms: self.brokers.throttle, ..Default::default() };
        let view = &self.brokers.views[&pending.node];
        for part in &pending.parts {
            let State::Done(code, base_offset) = part.state else { continue };
            let mut answer = PartitionProduceResponse {
                index: part.tp.partition,
                error_code: code.0,
                base_offset,
                log_append_time_ms: -1,
                log_start_offset: if code == E::NONE { 0 } else { -1 },
                ..Default::default()
            };
            if let Some((leader_id, leader_epoch)) = view.leader(&part.tp)
                && self.brokers.hints
                && pending.asked.version >= 10
                && code == E::NOT_LEADER_OR_FOLLOWER
            {
                answer.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
                let host = Cow::Owned(host(leader_id));
                response.node_endpoints.retain(|known: &NodeEndpoint<'_>| known.node_id != leader_id);
                response.node_endpoints.push(NodeEndpoint { node_id: leader_id, host, port: 9092, rack: None });
            }
            let (name, id) = &part.named;
            match response.responses.iter_mut().find(|topic| (&*topic.name, topic.topic_id) == (name, *id)) {
                Some(topic) => topic.partition_responses.push(answer),
                None => response.responses.push(TopicProduceResponse {
                    name: Cow::Owned(name.clone()),
                    topic_id: *id,
                    partition_responses: vec![answer],
                }),
            }
        }
        response
    }
}
