//! One operation under way: finds out whom to ask about each item, asks, asks again, and ends in time.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use super::errand::{Errand, Outcome, Place};
use super::error::AdminError;
use super::operation::AdminReply;
use super::operations::Context;
use crate::cluster::Cluster;
use crate::ids::{NodeId, TopicPartition};
use crate::request::{Reply, Request, RequestError, Response, Target};
use crate::rng::Backoff;
use crate::time::{Nanos, earlier};

/// An operation under way, whatever its kind.
pub(super) trait Run: fmt::Debug + Send {
    /// Asks whatever can be asked now; gives up what is out of time.
    fn advance(&mut self, cx: &mut Context<'_>);
    /// An answer to one of its requests.
    fn on_reply(&mut self, reply: &Reply, cx: &mut Context<'_>);
    /// Ends every item that is still open.
    fn fail(&mut self, error: &AdminError);
    /// When to advance at the latest.
    fn deadline(&self) -> Option<Nanos>;
    /// Whether every item has its result.
    fn is_settled(&self) -> bool;
    /// The topics whose leaders it needs.
    fn topics(&self, into: &mut Vec<Arc<str>>);
    /// The answer.
    fn finish(self: Box<Self>) -> AdminReply;
}

#[derive(Debug)]
enum State<V> {
    Open,
    Asked,
    Settled(Result<V, AdminError>),
}

/// What an unsettled item waits for, in case that it is the end of it.
#[derive(Debug, Clone, Copy)]
enum Waits {
    Metadata,
    Leader,
    Coordinator,
    Answer(Target),
    AnotherTry,
}

#[derive(Debug)]
struct Item<V> {
    state: State<V>,
    not_before: Nanos,
    backoff: Backoff,
    coordinator: Option<NodeId>,
    /// An attempt may have been carried out without an answer.
    ambiguous: bool,
    /// The metadata lacked it when so many answers had come: only a later one is believed.
    missed_at: Option<u64>,
    waits: Waits,
    last: Option<String>,
}

#[derive(Debug)]
struct Flight {
    token: u32,
    items: Vec<usize>,
    lookup: bool,
}

#[derive(Debug)]
pub(super) struct Task<E: Errand> {
    errand: E,
    items: Vec<Item<E::Value>>,
    in_flight: Vec<Flight>,
    end: Nanos,
}

/// What the metadata says about where an item is to be asked.
enum Found {
    At(Target),
    Lookup,
    Wait(Waits),
    /// Wait, and be patient: that took no answer to find out, so nothing else slows it down.
    Retry(Waits, &'static str),
    Missing(AdminError),
    Refused(AdminError),
}

impl<E: Errand> Task<E> {
    pub fn new(errand: E, end: Nanos, backoff: &Backoff) -> Self {
        let item = || Item {
            state: State::Open,
            not_before: 0,
            backoff: backoff.clone(),
            coordinator: None,
            ambiguous: false,
            missed_at: None,
            waits: Waits::Metadata,
            last: None,
        };
        let items = (0..errand.len()).map(|_| item()).collect();
        Self { errand, items, in_flight: Vec::new(), end }
    }

    fn find(&self, index: usize, cluster: &Cluster) -> Found {
        match self.errand.place(index) {
            Place::Any => Found::At(Target::Any),
            Place::Controller => Found::At(Target::Controller),
            Place::Node(node) if cluster.node_ids().any(|known| known == node) => Found::At(Target::Node(node)),
            Place::Node(_) if cluster.node_ids().next().is_none() => Found::Wait(Waits::Metadata),
            Place::Node(node) => Found::Missing(AdminError::NoBroker(node)),
            Place::Leader(tp) => leader(tp, cluster),
            Place::Coordinator(_) => match self.items.get(index).and_then(|item| item.coordinator) {
                Some(node) => Found::At(Target::Node(node)),
                None => Found::Lookup,
            },
        }
    }

    fn place_open_items(&mut self, cx: &mut Context<'_>) -> (Vec<(Target, Vec<usize>)>, Vec<usize>) {
        let mut batches: Vec<(Target, Vec<usize>)> = Vec::new();
        let mut lookups = Vec::new();
        for index in 0..self.items.len() {
            let is_due = |item: &Item<E::Value>| matches!(item.state, State::Open) && item.not_before <= cx.now;
            if !self.items.get(index).is_some_and(is_due) {
                continue;
            }
            let found = self.find(index, cx.cluster);
            let Some(item) = self.items.get_mut(index) else { continue };
            item.not_before = 0; // not by the clock any more: by an answer, or by metadata
            match found {
                Found::At(target) => match batches.iter_mut().find(|(other, _)| *other == target) {
                    Some((_, items)) => items.push(index),
                    None => batches.push((target, vec![index])),
                },
                Found::Lookup => lookups.push(index),
                Found::Wait(waits) => item.waits = waits,
                Found::Retry(waits, why) => {
                    item.retry(why.to_owned(), cx);
                    item.waits = waits;
                    cx.stale_metadata = true;
                }
                Found::Missing(error) => match item.missed_at {
                    Some(then) if cx.refreshes > then => item.state = State::Settled(Err(error)),
                    Some(_) => {}
                    // What we know may be of yesterday.
                    None => {
                        item.missed_at = Some(cx.refreshes);
                        item.waits = Waits::Metadata;
                        cx.stale_metadata = true;
                    }
                },
                Found::Refused(error) => item.state = State::Settled(Err(error)),
            }
        }
        (batches, lookups)
    }

    fn send(&mut self, target: Target, mut items: Vec<usize>, cx: &mut Context<'_>) {
        let request = self.errand.request(&mut items, cx.cluster, cx.broker_timeout_ms());
        self.dispatch(target, request, items, false, Waits::Answer(target), cx);
    }

    fn look_up(&mut self, items: Vec<usize>, cx: &mut Context<'_>) {
        let mut keys: Vec<_> = items.iter().filter_map(|&index| self.group(index).map(|g| g.to_string())).collect();
        keys.sort_unstable();
        keys.dedup();
        let coordinator_keys = keys.into_iter().map(Into::into).collect();
        let request = FindCoordinatorRequest { key_type: 0, coordinator_keys, ..Default::default() };
        self.dispatch(Target::Any, Request::FindCoordinator(request), items, true, Waits::Coordinator, cx);
    }

    fn dispatch(
        &mut self,
        target: Target,
        request: Request,
        items: Vec<usize>,
        lookup: bool,
        waits: Waits,
        cx: &mut Context<'_>,
    ) {
        if items.is_empty() {
            return;
        }
        for &index in &items {
            if let Some(item) = self.items.get_mut(index) {
                item.state = State::Asked;
                item.waits = waits;
            }
        }
        let token = cx.send(target, request);
        self.in_flight.push(Flight { token, items, lookup });
    }

    fn group(&self, index: usize) -> Option<&Arc<str>> {
        match self.errand.place(index) {
            Place::Coordinator(group) => Some(group),
            _ => None,
        }
    }

    fn unanswered(&mut self, flight: &Flight, error: &RequestError, cx: &mut Context<'_>) {
        for &index in &flight.items {
            let Some(item) = self.items.get_mut(index) else { continue };
            match error {
                RequestError::NotKafka(not_kafka) => item.settle(Err(AdminError::NotKafka(not_kafka.clone()))),
                RequestError::Unsupported { .. } | RequestError::Encode(_) => {
                    item.settle(Err(AdminError::Request(error.clone())));
                }
                error => {
                    item.ambiguous |= !flight.lookup && error.may_have_happened();
                    item.coordinator = None;
                    item.retry(error.to_string(), cx);
                }
            }
        }
        cx.stale_metadata = true;
    }

    fn located(&mut self, flight: &Flight, response: &Response, cx: &mut Context<'_>) {
        let answer = match response.decode(FindCoordinatorResponse::decode) {
            Ok(answer) => answer,
            Err(error) => return self.unanswered(flight, &RequestError::Protocol(error), cx),
        };
        let by_key: HashMap<&str, _> = answer.coordinators.iter().map(|found| (&*found.key, found)).collect();
        for &index in &flight.items {
            let found = self.group(index).and_then(|group| by_key.get(&**group)).copied();
            let Some(item) = self.items.get_mut(index) else { continue };
            let Some(found) = found else {
                item.retry("the answer to FindCoordinator leaves the group out".to_owned(), cx);
                continue;
            };
            match (ErrorCode(found.error_code), u16::try_from(found.port)) {
                (ErrorCode::NONE, Ok(port)) => {
                    item.coordinator = Some(found.node_id);
                    item.state = State::Open;
                    cx.learn_node(found.node_id, &found.host, port);
                }
                (ErrorCode::NONE, Err(_)) => item.retry(format!("the coordinator has port {}", found.port), cx),
                // COORDINATOR_NOT_AVAILABLE: the offsets topic is being made, or has no leader for the moment.
                (code, _) if code.is_retriable() => item.retry(code.to_string(), cx),
                (code, _) => {
                    let message = found.error_message.as_deref().filter(|text| !text.is_empty()).map(str::to_owned);
                    item.settle(Err(AdminError::Refused { code, message }));
                }
            }
        }
    }

    fn answered(&mut self, flight: &Flight, node: NodeId, response: &Response, cx: &mut Context<'_>) {
        let mut outcomes = Vec::new();
        if let Err(error) = self.errand.read(&flight.items, node, response, &mut outcomes) {
            return self.unanswered(flight, &RequestError::Protocol(error), cx);
        }
        for (index, outcome) in outcomes {
            let at_leader = matches!(self.errand.place(index), Place::Leader(_));
            let Some(item) = self.items.get_mut(index).filter(|item| matches!(item.state, State::Asked)) else {
                continue;
            };
            match outcome {
                Outcome::Done(value) => item.settle(Ok(value)),
                Outcome::GoOn => item.state = State::Open,
                Outcome::NotYet(why) => item.retry(why, cx),
                Outcome::Code(code, message) => {
                    if let Some(value) = self.errand.done_before(index, code).filter(|_| item.ambiguous) {
                        item.settle(Ok(value));
                    } else if passes(code, at_leader) {
                        // The broker may still be at it, or have done it.
                        item.ambiguous |= code == ErrorCode::REQUEST_TIMED_OUT;
                        if code != ErrorCode::COORDINATOR_LOAD_IN_PROGRESS {
                            item.coordinator = None;
                            cx.stale_metadata = true;
                        }
                        item.retry(code.to_string(), cx);
                    } else {
                        item.settle(Err(AdminError::Refused { code, message }));
                    }
                }
            }
        }
        for &index in &flight.items {
            if let Some(item) = self.items.get_mut(index).filter(|item| matches!(item.state, State::Asked)) {
                item.retry(format!("broker {node} left it out of its answer"), cx);
            }
        }
    }

    fn give_up(&mut self) {
        for index in 0..self.items.len() {
            let Some(item) = self.items.get(index).filter(|item| !item.is_settled()) else { continue };
            let (subject, api) = (self.errand.subject(index), self.errand.api());
            let waited_for = match item.waits {
                Waits::Metadata => "the cluster's metadata".to_owned(),
                Waits::Leader => format!("a leader of {subject}"),
                Waits::Coordinator => format!("the coordinator of {subject}"),
                Waits::Answer(Target::Node(node)) => format!("broker {node} to answer {api} for {subject}"),
                Waits::Answer(Target::Controller) => format!("the controller to answer {api} for {subject}"),
                Waits::Answer(_) => format!("a broker to answer {api} for {subject}"),
                Waits::AnotherTry => format!("the next try of {api} for {subject}"),
            };
            let error = AdminError::TimedOut { waited_for, last: item.last.clone() };
            if let Some(item) = self.items.get_mut(index) {
                item.settle(Err(error));
            }
        }
    }
}

impl<E: Errand> Run for Task<E> {
    fn advance(&mut self, cx: &mut Context<'_>) {
        if cx.now >= self.end {
            return self.give_up();
        }
        let (batches, lookups) = self.place_open_items(cx);
        for (target, items) in batches {
            self.send(target, items, cx);
        }
        if !lookups.is_empty() {
            self.look_up(lookups, cx);
        }
    }

    fn on_reply(&mut self, reply: &Reply, cx: &mut Context<'_>) {
        let Some(at) = self.in_flight.iter().position(|flight| flight.token == reply.token.id) else { return };
        let flight = self.in_flight.swap_remove(at);
        match &reply.result {
            Ok(response) if flight.lookup => self.located(&flight, response, cx),
            Ok(response) => self.answered(&flight, reply.node, response, cx),
            Err(error) => self.unanswered(&flight, error, cx),
        }
        self.advance(cx);
    }

    fn fail(&mut self, error: &AdminError) {
        for item in self.items.iter_mut().filter(|item| !item.is_settled()) {
            item.settle(Err(error.clone()));
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        // 0: not by the clock.
        let open = self.items.iter().filter(|item| matches!(item.state, State::Open) && item.not_before > 0);
        earlier((self.end < Nanos::MAX).then_some(self.end), open.map(|item| item.not_before).min())
    }

    fn is_settled(&self) -> bool {
        self.items.iter().all(Item::is_settled)
    }

    fn topics(&self, into: &mut Vec<Arc<str>>) {
        for index in 0..self.items.len() {
            if let Place::Leader(tp) = self.errand.place(index)
                && into.last() != Some(&tp.topic)
            {
                into.push(Arc::clone(&tp.topic));
            }
        }
    }

    fn finish(self: Box<Self>) -> AdminReply {
        let Self { errand, items, .. } = *self;
        let unfinished = || Err(AdminError::TimedOut { waited_for: errand.api().name().to_owned(), last: None });
        let results = items.into_iter().map(|item| match item.state {
            State::Settled(result) => result,
            State::Open | State::Asked => unfinished(),
        });
        errand.reply(results.collect())
    }
}

impl<V> Item<V> {
    fn is_settled(&self) -> bool {
        matches!(self.state, State::Settled(_))
    }

    fn settle(&mut self, result: Result<V, AdminError>) {
        self.state = State::Settled(result);
    }

    fn retry(&mut self, why: String, cx: &mut Context<'_>) {
        self.state = State::Open;
        self.not_before = cx.now.saturating_add(self.backoff.next(cx.rng));
        self.waits = Waits::AnotherTry;
        self.last = Some(why);
    }
}

fn leader(tp: &TopicPartition, cluster: &Cluster) -> Found {
    let Some(topic) = cluster.topic(&tp.topic) else { return Found::Wait(Waits::Metadata) };
    match topic.error {
        ErrorCode::NONE => {}
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
            return Found::Missing(AdminError::Refused { code: topic.error, message: None });
        }
        code if code.is_retriable() => return Found::Retry(Waits::Leader, code.name()),
        code => return Found::Refused(AdminError::Refused { code, message: None }),
    }
    let partition = usize::try_from(tp.partition).ok().and_then(|index| topic.partitions.get(index));
    match partition {
        None => Found::Missing(AdminError::NoPartition { count: topic.partitions.len() }),
        Some(partition) if partition.leader >= 0 => Found::At(Target::Node(partition.leader)),
        Some(partition) => Found::Retry(Waits::Leader, partition.error.name()),
    }
}

/// Whether asking again can help. What does not exist does not appear by itself; only a leader that has moved away says
/// of a partition that it does not have it.
fn passes(code: ErrorCode, at_leader: bool) -> bool {
    match code {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => at_leader,
        ErrorCode::STALE_CONTROLLER_EPOCH => true,
        code => code.is_retriable(),
    }
}
