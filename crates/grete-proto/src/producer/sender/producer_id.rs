//! Producer id and epoch: requested with InitProducerId (KIP-98), raised by the client (KIP-360).
//!
//! A broker keeps sequence numbers per partition. Each partition therefore adopts a new id or epoch separately, as soon
//! as none of its batches is ambiguous. A producer without transactions raises its epoch without a request: a broker
//! would assign another id instead. Only a higher epoch of the same id fences batches that may still be in flight under
//! the old epoch.

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

use super::Sender;
use super::drop_summary::DropCause;
use crate::backoff::Backoff;
use crate::ids::ProducerIdAndEpoch;
use crate::producer::error::{FatalError, LastError};
use crate::producer::sender::event::{SenderAction, SenderLogEvent};
use crate::request::{Channel, OutboundRequest, Reply, Request, RequestError, Target};
use crate::time::Nanos;

/// Last epoch in use: Kafka reserves the largest one for fencing.
const MAX_EPOCH: i16 = i16::MAX - 1;

/// State of the producer id; see the module documentation.
#[derive(Debug)]
pub(super) struct ProducerIdManager {
    /// `None`: not assigned yet, or a new id is needed.
    pub current: Option<ProducerIdAndEpoch>,
    /// Token of the InitProducerId request in flight.
    pending_request: Option<u32>,
    not_before: Nanos,
    backoff: Backoff,
}

impl ProducerIdManager {
    pub fn new(backoff: Backoff) -> Self {
        Self { current: None, pending_request: None, not_before: 0, backoff }
    }

    pub fn deadline(&self) -> Option<Nanos> {
        (self.current.is_none() && self.pending_request.is_none() && self.not_before > 0).then_some(self.not_before)
    }

    pub fn is_pending(&self, token: u32) -> bool {
        self.pending_request == Some(token)
    }

    /// Raises the epoch; clears the producer id if no epoch is left.
    pub fn bump_epoch(&mut self) {
        self.current = self.current.and_then(|ProducerIdAndEpoch { id, epoch }| {
            let epoch = epoch.checked_add(1).filter(|&epoch| epoch <= MAX_EPOCH)?;
            Some(ProducerIdAndEpoch { id, epoch })
        });
    }
}

impl Sender {
    /// Sends InitProducerId if an id is needed and no request is in flight.
    pub(super) fn request_producer_id(&mut self, now: Nanos, out: &mut Vec<SenderAction>) {
        let ids = &self.producer_ids;
        if self.config.transactional_id.is_some() {
            return; // the coordinator of the transactional id assigns it
        }
        if !self.config.idempotent || ids.current.is_some() || ids.pending_request.is_some() || now < ids.not_before {
            return;
        }
        let token = self.next_token();
        self.producer_ids.pending_request = Some(token.id);
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            producer_id: -1,
            producer_epoch: -1,
        };
        out.push(SenderAction::Send(OutboundRequest {
            target: Target::Any,
            channel: Channel::Control,
            request: Request::from_message(request),
            token,
            timeout: self.config.request_timeout,
        }));
    }

    pub(super) fn on_init_producer_id_response(&mut self, now: Nanos, reply: Reply, out: &mut Vec<SenderAction>) {
        self.producer_ids.pending_request = None;
        let answer = reply.result.and_then(|response| {
            let answer = response.decode(InitProducerIdResponse::decode).map_err(RequestError::Protocol)?;
            Ok((ErrorCode(answer.error_code), answer.producer_id, answer.producer_epoch))
        });
        let last_error = match answer {
            Ok((ErrorCode::NONE, id @ 0.., epoch @ 0..)) => {
                self.producer_ids.backoff.reset();
                self.producer_ids.not_before = 0;
                self.producer_ids.current = Some(ProducerIdAndEpoch { id, epoch });
                out.push(SenderAction::LogEvent(SenderLogEvent::ProducerIdAssigned { producer_id: id, epoch }));
                return self.enqueue_all(now);
            }
            // A response without a valid id or epoch: retry.
            Ok((ErrorCode::NONE, ..)) => LastError::Code(ErrorCode::UNKNOWN_SERVER_ERROR),
            Ok((code, ..)) if code.is_retriable() || code == ErrorCode::UNKNOWN_SERVER_ERROR => LastError::Code(code),
            // The ACL may come later: waiting records fail with the cure, and later ones ask again.
            Ok((code @ ErrorCode::CLUSTER_AUTHORIZATION_FAILED, ..)) => {
                self.drop_all(now, &DropCause::Refused(code), out);
                LastError::Code(code)
            }
            Ok((code, ..)) => return self.on_fatal(now, FatalError::ProducerId(code), out),
            Err(error @ RequestError::Unsupported { .. }) => {
                return self.on_fatal(now, FatalError::Request(error), out);
            }
            Err(error) => LastError::Request(error),
        };
        self.producer_ids.not_before = now.saturating_add(self.producer_ids.backoff.next_delay(&mut self.rng));
        out.push(SenderAction::LogEvent(SenderLogEvent::ProducerIdFailed(last_error)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_epoch_is_never_used() {
        let mut ids = ProducerIdManager::new(Backoff::new(1, 1));
        ids.current = Some(ProducerIdAndEpoch { id: 7, epoch: i16::MAX - 2 });
        ids.bump_epoch();
        assert_eq!(ids.current, Some(ProducerIdAndEpoch { id: 7, epoch: i16::MAX - 1 }));
        ids.bump_epoch();
        assert_eq!(ids.current, None, "another id is needed");
    }
}
