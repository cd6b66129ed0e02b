//! Driver of one operation: finds the target broker of each item, sends requests, retries, and ends at the deadline.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use grete_wire::KafkaRequest;
use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

use super::context::Context;
use super::error::AdminError;
use super::handler::{ApiHandler, CoordinatorType, ItemResult, ItemResults, LookupStrategy, OperationItem};
use super::reply::AdminReply;
use crate::backoff::Backoff;
use crate::cluster::Cluster;
use crate::ids::{NodeId, TopicPartition};
use crate::request::{Reply, Request, RequestError, Response, Target};
use crate::time::{Nanos, earliest};

/// An operation in progress, of any kind.
pub(super) trait RunningOperation: fmt::Debug + Send {
    /// Sends every request that is due; fails the open items when the deadline has passed.
    fn advance(&mut self, cx: &mut Context<'_>);
    /// Handles the result of one of the operation's requests.
    fn on_reply(&mut self, reply: &Reply, cx: &mut Context<'_>);
    /// Fails every open item.
    fn fail(&mut self, error: &AdminError);
    /// Returns the latest time of the next `advance`; `None`: no timer is running.
    fn deadline(&self) -> Option<Nanos>;
    /// Returns whether every item has its result.
    fn is_complete(&self) -> bool;
    /// Appends the topics whose leaders the operation needs.
    fn topics(&self, into: &mut Vec<Arc<str>>);
    /// Builds the reply for the caller.
    fn finish(self: Box<Self>) -> AdminReply;
}

#[derive(Debug)]
enum ItemState<V> {
    Open,
    InFlight,
    Complete(Result<V, AdminError>),
}

/// Reason why an item is not complete, for its timeout error.
#[derive(Debug, Clone, Copy)]
enum WaitingFor {
    Metadata,
    Leader,
    Coordinator,
    Response(Target),
    Retry,
}

#[derive(Debug)]
struct Item<I, V> {
    item: I,
    state: ItemState<V>,
    not_before: Nanos,
    backoff: Backoff,
    coordinator: Option<NodeId>,
    /// An attempt without a response may have been executed.
    ambiguous: bool,
    /// Number of metadata responses when the metadata first lacked the item. Only a later response is accepted as
    /// proof.
    missing_at_refresh: Option<u64>,
    waits: WaitingFor,
    last: Option<String>,
}

#[derive(Debug)]
struct InFlightRequest {
    token: u32,
    items: Vec<usize>,
    lookup: bool,
}

#[derive(Debug)]
pub(super) struct ApiDriver<H: ApiHandler> {
    handler: H,
    items: Vec<Item<H::Item, H::Value>>,
    in_flight: Vec<InFlightRequest>,
    end: Nanos,
}

/// Target broker of an item, according to the metadata.
enum TargetLookup {
    Resolved(Target),
    Lookup,
    Wait(WaitingFor),
    /// Wait with backoff: the cause is local metadata, so no response time slows down the loop.
    Retry(WaitingFor, &'static str),
    Missing(AdminError),
    Refused(AdminError),
}

impl<H: ApiHandler> ApiDriver<H> {
    pub fn new(handler: H, items: impl IntoIterator<Item = H::Item>, end: Nanos, backoff: &Backoff) -> Self {
        let open = |item| Item {
            item,
            state: ItemState::Open,
            not_before: 0,
            backoff: backoff.clone(),
            coordinator: None,
            ambiguous: false,
            missing_at_refresh: None,
            waits: WaitingFor::Metadata,
            last: None,
        };
        Self { handler, items: items.into_iter().map(open).collect(), in_flight: Vec::new(), end }
    }

    fn route_open_items(&mut self, cx: &mut Context<'_>) -> (Vec<(Target, Vec<usize>)>, Vec<usize>) {
        let mut batches: Vec<(Target, Vec<usize>)> = Vec::new();
        let mut lookups = Vec::new();
        for (index, item) in self.items.iter_mut().enumerate() {
            if !matches!(item.state, ItemState::Open) || item.not_before > cx.now {
                continue;
            }
            item.not_before = 0; // from now on a response or metadata makes it due, not the clock
            match item.resolve_target(cx.cluster) {
                TargetLookup::Resolved(target) => match batches.iter_mut().find(|(other, _)| *other == target) {
                    Some((_, items)) => items.push(index),
                    None => batches.push((target, vec![index])),
                },
                TargetLookup::Lookup => lookups.push(index),
                TargetLookup::Wait(waits) => item.waits = waits,
                TargetLookup::Retry(waits, why) => {
                    item.retry(why.to_owned(), cx);
                    item.waits = waits;
                    cx.stale_metadata = true;
                }
                TargetLookup::Missing(error) => match item.missing_at_refresh {
                    Some(then) if cx.refreshes > then => item.state = ItemState::Complete(Err(error)),
                    Some(_) => {}
                    // The metadata may be stale.
                    None => {
                        item.missing_at_refresh = Some(cx.refreshes);
                        item.waits = WaitingFor::Metadata;
                        cx.stale_metadata = true;
                    }
                },
                TargetLookup::Refused(error) => item.state = ItemState::Complete(Err(error)),
            }
        }
        (batches, lookups)
    }

    fn send(&mut self, target: Target, mut indexes: Vec<usize>, cx: &mut Context<'_>) {
        // A request names each key once; further items with the same key wait for the next request.
        let mut keys = HashSet::new();
        let mut items = Vec::new();
        indexes.retain(|&index| {
            let item = self.items.get(index).map(|item| &item.item).filter(|item| keys.insert(item.key()));
            items.extend(item);
            item.is_some()
        });
        let request = self.handler.build_request(&items, cx.cluster, cx.broker_timeout_ms());
        self.send_request(target, request, indexes, false, WaitingFor::Response(target), cx);
    }

    fn find_coordinators(&mut self, items: Vec<usize>, cx: &mut Context<'_>) {
        // The items of an operation have coordinators of one kind.
        let kind = items.iter().find_map(|&index| self.coordinator_key(index)).map(|(kind, _)| kind);
        let key_type = kind.unwrap_or(CoordinatorType::Group) as i8;
        let key = |&index: &usize| self.coordinator_key(index).map(|(_, key)| key.to_string());
        let mut keys: Vec<_> = items.iter().filter_map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        let coordinator_keys = keys.into_iter().map(Into::into).collect();
        let request = FindCoordinatorRequest { key_type, coordinator_keys, ..Default::default() };
        self.send_request(Target::Any, Request::FindCoordinator(request), items, true, WaitingFor::Coordinator, cx);
    }

    fn send_request(
        &mut self,
        target: Target,
        request: Request,
        items: Vec<usize>,
        lookup: bool,
        waits: WaitingFor,
        cx: &mut Context<'_>,
    ) {
        if items.is_empty() {
            return;
        }
        for &index in &items {
            if let Some(item) = self.items.get_mut(index) {
                item.state = ItemState::InFlight;
                item.waits = waits;
            }
        }
        let token = cx.send(target, request);
        self.in_flight.push(InFlightRequest { token, items, lookup });
    }

    fn coordinator_key(&self, index: usize) -> Option<(CoordinatorType, &Arc<str>)> {
        match self.items.get(index)?.item.lookup_strategy() {
            LookupStrategy::Coordinator(kind, key) => Some((kind, key)),
            _ => None,
        }
    }

    fn on_request_error(&mut self, flight: &InFlightRequest, error: &RequestError, cx: &mut Context<'_>) {
        for &index in &flight.items {
            let Some(item) = self.items.get_mut(index) else { continue };
            match error {
                // The source of tokens may have one again before the operation's time is up.
                RequestError::Unusable(fault) if fault.is_certain(u32::MAX) => {
                    item.complete(Err(AdminError::Unusable(fault.clone())))
                }
                RequestError::Unsupported { .. } | RequestError::Encode(_) => {
                    item.complete(Err(AdminError::Request(error.clone())));
                }
                error => {
                    item.ambiguous |= !flight.lookup && error.is_ambiguous();
                    item.coordinator = None;
                    item.retry(error.to_string(), cx);
                }
            }
        }
        cx.stale_metadata = true;
    }

    fn on_coordinators(&mut self, flight: &InFlightRequest, response: &Response, cx: &mut Context<'_>) {
        let answer = match response.decode(FindCoordinatorResponse::decode) {
            Ok(answer) => answer,
            Err(error) => return self.on_request_error(flight, &RequestError::Protocol(error), cx),
        };
        let by_key: HashMap<&str, _> = answer.coordinators.iter().map(|found| (&*found.key, found)).collect();
        for &index in &flight.items {
            let found = self.coordinator_key(index).and_then(|(_, key)| by_key.get(&**key)).copied();
            let Some(item) = self.items.get_mut(index) else { continue };
            let Some(found) = found else {
                item.retry("the FindCoordinator response omits the key".to_owned(), cx);
                continue;
            };
            match (ErrorCode(found.error_code), u16::try_from(found.port)) {
                (ErrorCode::NONE, Ok(port)) => {
                    item.coordinator = Some(found.node_id);
                    item.state = ItemState::Open;
                    cx.learn_node(found.node_id, &found.host, port);
                }
                (ErrorCode::NONE, Err(_)) => item.retry(format!("the coordinator has port {}", found.port), cx),
                // COORDINATOR_NOT_AVAILABLE: the offsets topic is being created, or has no leader at the moment.
                (code, _) if code.is_retriable() => item.retry(code.to_string(), cx),
                (code, _) => {
                    let message = found.error_message.as_deref().filter(|text| !text.is_empty()).map(str::to_owned);
                    item.complete(Err(AdminError::Refused { code, message }));
                }
            }
        }
    }

    fn on_response(&mut self, flight: &InFlightRequest, node: NodeId, response: &Response, cx: &mut Context<'_>) {
        let answer = match response.decode(H::Api::decode_response) {
            Ok(answer) => answer,
            Err(error) => return self.on_request_error(flight, &RequestError::Protocol(error), cx),
        };
        let sent = flight.items.iter().filter_map(|&index| Some((index, &self.items.get(index)?.item)));
        let mut results = ItemResults::new(node, sent);
        self.handler.parse_response(&answer, &mut results);
        for (index, result) in results.into_results() {
            let Some(item) = self.items.get_mut(index).filter(|item| matches!(item.state, ItemState::InFlight)) else {
                continue;
            };
            match result {
                ItemResult::Done(value) => item.complete(Ok(value)),
                ItemResult::Continue => {
                    self.handler.prepare_next_request(&mut item.item);
                    item.state = ItemState::Open;
                }
                ItemResult::Pending(why) => item.retry(why, cx),
                ItemResult::Code(code, message) => {
                    if let Some(value) = self.handler.already_done(code).filter(|_| item.ambiguous) {
                        item.complete(Ok(value));
                    } else if can_retry(code, matches!(item.item.lookup_strategy(), LookupStrategy::Leader(_))) {
                        // The broker may still execute the request, or may have done so.
                        item.ambiguous |= code == ErrorCode::REQUEST_TIMED_OUT;
                        if code != ErrorCode::COORDINATOR_LOAD_IN_PROGRESS {
                            item.coordinator = None;
                            cx.stale_metadata = true;
                        }
                        item.retry(code.to_string(), cx);
                    } else {
                        item.complete(Err(AdminError::Refused { code, message }));
                    }
                }
            }
        }
        for &index in &flight.items {
            if let Some(item) = self.items.get_mut(index).filter(|item| matches!(item.state, ItemState::InFlight)) {
                item.retry(format!("broker {node} omitted it from the response"), cx);
            }
        }
    }

    fn time_out(&mut self) {
        let api = H::Api::KEY;
        for item in self.items.iter_mut().filter(|item| !item.is_settled()) {
            let subject = item.item.describe();
            let waited_for = match item.waits {
                WaitingFor::Metadata => "the cluster's metadata".to_owned(),
                WaitingFor::Leader => format!("a leader of {subject}"),
                WaitingFor::Coordinator => format!("the coordinator of {subject}"),
                WaitingFor::Response(Target::Node(node)) => format!("broker {node} to answer {api} for {subject}"),
                WaitingFor::Response(Target::Controller) => format!("the controller to answer {api} for {subject}"),
                WaitingFor::Response(_) => format!("a broker to answer {api} for {subject}"),
                WaitingFor::Retry => format!("the next attempt of {api} for {subject}"),
            };
            let error = AdminError::TimedOut { waited_for, last: item.last.take() };
            item.complete(Err(error));
        }
    }
}

impl<H: ApiHandler> RunningOperation for ApiDriver<H> {
    fn advance(&mut self, cx: &mut Context<'_>) {
        if cx.now >= self.end {
            return self.time_out();
        }
        let (batches, lookups) = self.route_open_items(cx);
        for (target, items) in batches {
            self.send(target, items, cx);
        }
        if !lookups.is_empty() {
            self.find_coordinators(lookups, cx);
        }
    }

    fn on_reply(&mut self, reply: &Reply, cx: &mut Context<'_>) {
        let Some(at) = self.in_flight.iter().position(|flight| flight.token == reply.token.id) else { return };
        let flight = self.in_flight.swap_remove(at);
        match &reply.result {
            Ok(response) if flight.lookup => self.on_coordinators(&flight, response, cx),
            Ok(response) => self.on_response(&flight, reply.node, response, cx),
            Err(error) => self.on_request_error(&flight, error, cx),
        }
        self.advance(cx);
    }

    fn fail(&mut self, error: &AdminError) {
        for item in self.items.iter_mut().filter(|item| !item.is_settled()) {
            item.complete(Err(error.clone()));
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        // 0: not due by the clock.
        let open = self.items.iter().filter(|item| matches!(item.state, ItemState::Open) && item.not_before > 0);
        earliest((self.end < Nanos::MAX).then_some(self.end), open.map(|item| item.not_before).min())
    }

    fn is_complete(&self) -> bool {
        self.items.iter().all(Item::is_settled)
    }

    fn topics(&self, into: &mut Vec<Arc<str>>) {
        for item in &self.items {
            if let LookupStrategy::Leader(tp) = item.item.lookup_strategy()
                && into.last() != Some(&tp.topic)
            {
                into.push(Arc::clone(&tp.topic));
            }
        }
    }

    fn finish(self: Box<Self>) -> AdminReply {
        let unfinished = || Err(AdminError::TimedOut { waited_for: H::Api::KEY.name().to_owned(), last: None });
        let results = self.items.into_iter().map(|item| match item.state {
            ItemState::Complete(result) => result,
            ItemState::Open | ItemState::InFlight => unfinished(),
        });
        (H::REPLY)(results.collect())
    }
}

impl<I: OperationItem, V> Item<I, V> {
    fn resolve_target(&self, cluster: &Cluster) -> TargetLookup {
        match self.item.lookup_strategy() {
            LookupStrategy::Any => TargetLookup::Resolved(Target::Any),
            LookupStrategy::Controller => TargetLookup::Resolved(Target::Controller),
            LookupStrategy::Node(node) if cluster.node_ids().any(|known| known == node) => {
                TargetLookup::Resolved(Target::Node(node))
            }
            LookupStrategy::Node(_) if cluster.node_ids().next().is_none() => TargetLookup::Wait(WaitingFor::Metadata),
            LookupStrategy::Node(node) => TargetLookup::Missing(AdminError::NoBroker(node)),
            LookupStrategy::Leader(tp) => leader(tp, cluster),
            LookupStrategy::Coordinator(..) => match self.coordinator {
                Some(node) => TargetLookup::Resolved(Target::Node(node)),
                None => TargetLookup::Lookup,
            },
        }
    }

    fn is_settled(&self) -> bool {
        matches!(self.state, ItemState::Complete(_))
    }

    fn complete(&mut self, result: Result<V, AdminError>) {
        self.state = ItemState::Complete(result);
    }

    fn retry(&mut self, why: String, cx: &mut Context<'_>) {
        self.state = ItemState::Open;
        self.not_before = cx.now.saturating_add(self.backoff.next_delay(cx.rng));
        self.waits = WaitingFor::Retry;
        self.last = Some(why);
    }
}

fn leader(tp: &TopicPartition, cluster: &Cluster) -> TargetLookup {
    let Some(topic) = cluster.topic(&tp.topic) else { return TargetLookup::Wait(WaitingFor::Metadata) };
    match topic.error {
        ErrorCode::NONE => {}
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
            return TargetLookup::Missing(AdminError::Refused { code: topic.error, message: None });
        }
        code if code.is_retriable() => return TargetLookup::Retry(WaitingFor::Leader, code.name()),
        code => return TargetLookup::Refused(AdminError::Refused { code, message: None }),
    }
    let partition = usize::try_from(tp.partition).ok().and_then(|index| topic.partitions.get(index));
    match partition {
        None => TargetLookup::Missing(AdminError::NoPartition { count: topic.partitions.len() }),
        Some(partition) if partition.leader >= 0 => TargetLookup::Resolved(Target::Node(partition.leader)),
        Some(partition) => TargetLookup::Retry(WaitingFor::Leader, partition.error.name()),
    }
}

/// Returns whether a retry can help. A missing object does not appear by itself. Only a former leader can report an
/// existing partition as unknown.
fn can_retry(code: ErrorCode, at_leader: bool) -> bool {
    match code {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID => at_leader,
        ErrorCode::STALE_CONTROLLER_EPOCH => true,
        code => code.is_retriable(),
    }
}
