//! FindCoordinator and InitProducerId.

use std::borrow::Cow;

use grete_wire::ErrorCode;
use grete_wire::messages::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};

use crate::cluster::{Cluster, RequestContext};
use crate::message::Response;

/// Type of a coordinator's key: a group, a transactional id, or a share group's partition.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

impl Cluster {
    pub(in crate::cluster) fn find_coordinator(
        &mut self,
        context: &RequestContext,
        request: &FindCoordinatorRequest<'_>,
    ) {
        let response = if context.version >= 4 {
            let find = |key: &Cow<'_, str>| self.locate_coordinator(request.key_type, key);
            let coordinators = request.coordinator_keys.iter().map(find).collect();
            FindCoordinatorResponse { coordinators, ..FindCoordinatorResponse::default() }
        } else {
            let found = self.locate_coordinator(request.key_type, &request.key);
            FindCoordinatorResponse {
                error_code: found.error_code,
                // Kafka gives its name of "no error" here.
                error_message: if found.error_code == 0 { Some(Cow::Borrowed("NONE")) } else { found.error_message },
                node_id: found.node_id,
                host: found.host,
                port: found.port,
                ..FindCoordinatorResponse::default()
            }
        };
        self.reply(context, Response::FindCoordinator(response));
    }

    fn locate_coordinator(&self, key_type: i8, key: &str) -> Coordinator<'static> {
        let failed = |error: ErrorCode, message: &'static str| Coordinator {
            key: Cow::Owned(key.to_owned()),
            node_id: -1,
            port: -1,
            error_code: error.0,
            error_message: Some(Cow::Borrowed(message)),
            ..Coordinator::default()
        };
        if ![GROUP, TRANSACTION].contains(&key_type) {
            return failed(ErrorCode::INVALID_REQUEST, "This broker has coordinators of groups and transactions only.");
        }
        match self.coordinator(key).and_then(|id| self.live_broker(id)) {
            Some(broker) => Coordinator {
                key: Cow::Owned(key.to_owned()),
                node_id: broker.id,
                host: Cow::Owned(broker.host.to_string()),
                port: broker.port.into(),
                error_code: ErrorCode::NONE.0,
                error_message: Some(Cow::Borrowed("")),
            },
            None => failed(ErrorCode::COORDINATOR_NOT_AVAILABLE, "No broker is up."),
        }
    }
}
