//! The producer's identity (KIP-98), and how it gets another one (KIP-360).
//!
//! A broker keeps numbers per partition, so each partition takes on a new identity by itself, as soon as nothing of it
//! is ambiguous. A producer without transactions raises its epoch without asking: asked for that, brokers give it
//! another id, and only a higher epoch of the same id keeps out what may still be on its way under the old one.

use grete_wire::error_code::ErrorCode;
use grete_wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

use super::lane::Identity;
use super::{ProduceMachine, token};
use crate::produce::error::{FatalError, LastError};
use crate::produce::event::{ProduceAction, ProduceNotice};
use crate::request::{Channel, Outgoing, Reply, Request, RequestError, Target};
use crate::rng::Backoff;
use crate::time::Nanos;

/// The last epoch that is used: Kafka keeps the largest for fencing.
const LAST_EPOCH: i16 = i16::MAX - 1;

/// See the module.
#[derive(Debug)]
pub(super) struct Identities {
    /// `None` until a broker has given one, and while a new one is needed.
    pub current: Option<Identity>,
    /// The question on its way.
    asked: Option<u32>,
    not_before: Nanos,
    backoff: Backoff,
}

impl Identities {
    pub fn new(backoff: Backoff) -> Self {
        Self { current: None, asked: None, not_before: 0, backoff }
    }

    pub fn deadline(&self) -> Option<Nanos> {
        (self.current.is_none() && self.asked.is_none() && self.not_before > 0).then_some(self.not_before)
    }

    pub fn awaits(&self, token: u32) -> bool {
        self.asked == Some(token)
    }

    /// The next epoch; or no identity, if there is none.
    pub fn bump(&mut self) {
        self.current = self.current.and_then(|Identity { id, epoch }| {
            let epoch = epoch.checked_add(1).filter(|&epoch| epoch <= LAST_EPOCH)?;
            Some(Identity { id, epoch })
        });
    }
}

impl ProduceMachine {
    /// Asks for an identity if one is needed and nobody has been asked.
    pub(super) fn want_identity(&mut self, now: Nanos, out: &mut Vec<ProduceAction>) {
        let ids = &self.identities;
        if !self.config.idempotent || ids.current.is_some() || ids.asked.is_some() || now < ids.not_before {
            return;
        }
        let id = self.next_token();
        self.identities.asked = Some(id);
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            producer_id: -1,
            producer_epoch: -1,
        };
        out.push(ProduceAction::Send(Outgoing {
            target: Target::Any,
            channel: Channel::Control,
            request: Request::any(request),
            token: token(id),
            timeout: self.config.request_timeout,
        }));
    }

    pub(super) fn on_identity(&mut self, now: Nanos, reply: Reply, out: &mut Vec<ProduceAction>) {
        self.identities.asked = None;
        let answer = reply.result.and_then(|response| {
            let answer = response.decode(InitProducerIdResponse::decode).map_err(RequestError::Protocol)?;
            Ok((ErrorCode(answer.error_code), answer.producer_id, answer.producer_epoch))
        });
        let trouble = match answer {
            Ok((ErrorCode::NONE, id @ 0.., epoch @ 0..)) => {
                self.identities.backoff.reset();
                self.identities.not_before = 0;
                self.identities.current = Some(Identity { id, epoch });
                out.push(ProduceAction::Notice(ProduceNotice::Identity { producer_id: id, epoch }));
                return self.enqueue_all(now);
            }
            // An answer without sense: ask again.
            Ok((ErrorCode::NONE, ..)) => LastError::Code(ErrorCode::UNKNOWN_SERVER_ERROR),
            Ok((code, ..)) if code.is_retriable() || code == ErrorCode::UNKNOWN_SERVER_ERROR => LastError::Code(code),
            Ok((code, ..)) => return self.fail(now, FatalError::Identity(code), out),
            Err(error @ RequestError::Unsupported { .. }) => return self.fail(now, FatalError::Request(error), out),
            Err(error) => LastError::Request(error),
        };
        self.identities.not_before = now.saturating_add(self.identities.backoff.next(&mut self.rng));
        out.push(ProduceAction::Notice(ProduceNotice::NoIdentity(trouble)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_epoch_is_never_used() {
        let mut ids = Identities::new(Backoff::new(1, 1));
        ids.current = Some(Identity { id: 7, epoch: i16::MAX - 2 });
        ids.bump();
        assert_eq!(ids.current, Some(Identity { id: 7, epoch: i16::MAX - 1 }));
        ids.bump();
        assert_eq!(ids.current, None, "another id is needed");
    }
}
