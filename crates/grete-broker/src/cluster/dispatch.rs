//! From a frame to a handler, and from a response to the bytes of a connection.

use std::sync::Arc;

use grete_wire::frame::{encode_response, parse_request_header};
use grete_wire::{ApiKey, Frame, Reader};

use super::Cluster;
use super::access::check_numbers;
use super::connection::RequestContext;
use super::event::Action;
use super::request_log::LoggedRequest;
use crate::ids::{ConnId, RequestId};
use crate::message::{Request, Response};

/// Capacity of the buffer of a response, in bytes, beside its records.
const RESPONSE_BYTES: usize = 256;

impl Cluster {
    /// Begins the next request of a connection if none is in progress.
    pub(super) fn begin_next(&mut self, conn: ConnId, actions: &mut Vec<Action>) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if connection.in_progress.is_some() || self.suspensions.contains(connection.broker) {
            return;
        }
        let Some(frame) = connection.queue.pop_front() else { return };
        connection.queued_bytes = connection.queued_bytes.saturating_sub(frame.len());
        self.queued_bytes = self.queued_bytes.saturating_sub(frame.len());
        if connection.is_paused && connection.has_room() {
            connection.is_paused = false;
            actions.push(Action::ResumeReading(conn));
        }
        if let Err(problem) = self.begin(conn, &frame, actions) {
            let host = self.connections.get(&conn).map(|connection| Arc::clone(&connection.client_host));
            let host = host.as_deref().unwrap_or("unknown");
            actions.push(Action::Log(format!("connection of {host} closed: {problem}")));
            self.close_connection(conn, actions);
        }
    }

    /// Decodes a request and hands it to its handler. The error closes the connection, as Kafka does.
    fn begin(&mut self, conn: ConnId, frame: &Frame, actions: &mut Vec<Action>) -> Result<(), String> {
        let header =
            parse_request_header(frame).map_err(|error| format!("the request's header is invalid: {error}"))?;
        let Some(connection) = self.connections.get(&conn) else { return Ok(()) };
        let (broker, client_host) = (connection.broker, Arc::clone(&connection.client_host));
        let principal = connection.principal(self.config.sasl.is_some());
        if self.config.sasl.is_some() {
            connection.sasl.check(header.api, self.now)?;
        }
        let context = RequestContext {
            id: self.next_request_id(),
            conn,
            broker,
            api: header.api,
            version: header.version,
            correlation_id: header.correlation_id,
            client_id: header.client_id.unwrap_or_default().into(),
            client_host,
            principal,
            began_at: self.now,
        };
        let offered = self.offered_versions(header.api);
        if !offered.as_ref().is_some_and(|versions| versions.contains(&header.version)) {
            if header.api == ApiKey::ApiVersions {
                self.begin_context(&context, None);
                let response = Response::ApiVersions(self.api_versions_unsupported());
                self.effects.reply(context.id, response);
                return Ok(());
            }
            let offered = offered.map_or_else(
                || "this broker does not implement the API".to_owned(),
                |versions| format!("this broker answers versions {} to {}", versions.start(), versions.end()),
            );
            return Err(format!("{} version {} was requested, and {offered}", header.api, header.version));
        }
        let request = Self::decode(&context, frame)?;
        check_numbers(&request)?;
        let rule = self.fault_of(&context, &request);
        self.begin_context(&context, rule.as_ref().map(|rule| rule.action.name()));
        match rule {
            None => self.handle(&context, request),
            Some(rule) => self.handle_faulty(&context, request, frame, rule, actions),
        }
        Ok(())
    }

    /// Decodes the body of a request.
    pub(super) fn decode<'a>(context: &RequestContext, frame: &'a Frame) -> Result<Request<'a>, String> {
        let body = parse_request_header(frame).ok().and_then(|header| frame.get(header.body..)).unwrap_or_default();
        let (api, version) = (context.api, context.version);
        Request::decode(api, version, &mut Reader::new(body))
            .map_err(|error| format!("the body of {api} version {version} is invalid: {error}"))
    }

    fn begin_context(&mut self, context: &RequestContext, fault: Option<Arc<str>>) {
        if let Some(connection) = self.connections.get_mut(&context.conn) {
            connection.in_progress = Some(context.id);
        }
        self.request_log.push(LoggedRequest {
            at: self.now,
            broker: context.broker,
            conn: context.conn,
            client_id: Arc::clone(&context.client_id),
            api: context.api,
            version: context.version,
            fault,
        });
        self.requests.insert(context.id, context.clone());
    }

    /// Encodes a response for its connection. The next request of the connection can begin.
    pub(super) fn respond(&mut self, request: RequestId, mut response: Response, actions: &mut Vec<Action>) {
        let Some(context) = self.requests.get(&request).cloned() else { return };
        if self.suspensions.contains(context.broker) {
            return self.suspensions.hold(context.broker, request, response);
        }
        self.complete_response(&context, &mut response);
        let (conn, api, correlation_id) = (context.conn, context.api, context.correlation_id);
        // ApiVersions answers a version that the broker does not know in version 0 (KIP-511).
        let is_offered = self.offered_versions(context.api).is_some_and(|range| range.contains(&context.version));
        let version = if is_offered { context.version } else { 0 };
        let hint = response.records_len().saturating_add(RESPONSE_BYTES);
        match encode_response(api, version, correlation_id, hint, |out| response.encode(version, out)) {
            Ok(bytes) if self.respond_damaged(request, &bytes, actions) => return,
            Ok(bytes) => actions.push(Action::Write { conn, bytes }),
            Err(error) => {
                actions.push(Action::Log(format!(
                    "connection closed: the response of {api} version {version} has no encoding: {error}"
                )));
                self.close_connection(conn, actions);
            }
        }
        self.finish_request(request, actions);
    }

    /// Ends a request, with or without a response.
    pub(super) fn finish_request(&mut self, request: RequestId, actions: &mut Vec<Action>) {
        self.refusals.remove(&request);
        let Some(context) = self.requests.remove(&request) else { return };
        if let Some(connection) = self.connections.get_mut(&context.conn) {
            connection.in_progress = None;
            connection.used_at = self.now;
            if connection.ends_after_response {
                return self.close_connection(context.conn, actions);
            }
            if !connection.queue.is_empty() {
                self.ready.push_back(context.conn);
            }
        }
    }

    /// Calls the handler of a request.
    pub(super) fn handle(&mut self, context: &RequestContext, request: Request<'_>) {
        let request = match self.config.acls {
            Some(_) => match self.admit(context, request) {
                Some(request) => request,
                None => return,
            },
            None => request,
        };
        match request {
            Request::ApiVersions(request) => {
                let response = self.api_versions(context.version, &request);
                self.reply(context, Response::ApiVersions(response));
            }
            Request::SaslHandshake(request) => self.sasl_handshake(context, &request),
            Request::SaslAuthenticate(request) => self.sasl_authenticate(context, &request),
            Request::Metadata(request) => self.metadata(context, &request),
            Request::DescribeCluster(request) => self.describe_cluster(context, &request),
            Request::FindCoordinator(request) => self.find_coordinator(context, &request),
            Request::CreateTopics(request) => self.create_topics(context, &request),
            Request::DeleteTopics(request) => self.delete_topics(context, &request),
            Request::CreatePartitions(request) => self.create_partitions(context, &request),
            Request::DeleteRecords(request) => self.delete_records(context, &request),
            Request::DescribeConfigs(request) => self.describe_configs(context, &request),
            Request::IncrementalAlterConfigs(request) => self.incremental_alter_configs(context, &request),
            Request::Produce(request) => self.produce(context, &request),
            Request::Fetch(request) => self.fetch(context, &request),
            Request::ListOffsets(request) => self.list_offsets(context, &request),
            Request::OffsetForLeaderEpoch(request) => self.offset_for_leader_epoch(context, &request),
            Request::DescribeAcls(request) => self.describe_acls(context, &request),
            Request::CreateAcls(request) => self.create_acls(context, &request),
            Request::DeleteAcls(request) => self.delete_acls(context, &request),
            Request::AlterConfigs(request) => self.alter_configs(context, &request),
            Request::DescribeTopicPartitions(request) => self.describe_topic_partitions(context, &request),
            Request::DescribeProducers(request) => self.describe_producers(context, &request),
            Request::DescribeLogDirs(request) => self.describe_log_dirs(context, &request),
            request @ (Request::InitProducerId(_)
            | Request::AddPartitionsToTxn(_)
            | Request::AddOffsetsToTxn(_)
            | Request::EndTxn(_)
            | Request::TxnOffsetCommit(_)
            | Request::WriteTxnMarkers(_)
            | Request::ListTransactions(_)
            | Request::DescribeTransactions(_)) => self.handle_transaction_request(context, request),
            request @ (Request::ShareGroupHeartbeat(_)
            | Request::ShareGroupDescribe(_)
            | Request::ShareFetch(_)
            | Request::ShareAcknowledge(_)
            | Request::DescribeShareGroupOffsets(_)
            | Request::AlterShareGroupOffsets(_)
            | Request::DeleteShareGroupOffsets(_)) => self.handle_share_request(context, request),
            request => self.handle_group_request(context, request),
        }
    }

    /// Answers a request.
    pub(super) fn reply(&mut self, context: &RequestContext, response: Response) {
        self.effects.reply(context.id, response);
    }
}
