//! What goes into a whole producer, and what comes out.

use std::sync::Arc;

use grete_wire::Outbound;
use grete_wire::frame::Frame;

use crate::cluster::ClusterNotice;
use crate::conn::CloseReason;
use crate::ids::ConnId;
use crate::produce::{FatalError, ProduceNotice, Receipt};
use crate::time::Nanos;

/// Something happened.
#[derive(Debug)]
pub enum ProducerEvent {
    /// The deadline has passed, or something was wanted while nobody could say what.
    Tick,
    /// A socket is connected.
    Connected(ConnId),
    /// A message has arrived.
    Frame(ConnId, Frame),
    /// A socket could not be connected, or is gone.
    Closed(ConnId, CloseReason),
    /// Records were appended, or are wanted out.
    Drain,
    /// Take no more records, send what is there, and at the deadline give up what is left. `Finished` follows.
    Close {
        /// When.
        deadline: Nanos,
    },
}

/// What has to be done.
#[derive(Debug)]
pub enum ProducerAction {
    /// Resolve and connect; answer with `Connected` or `Closed`.
    Connect {
        /// The connection's name from now on.
        conn: ConnId,
        /// Where.
        host: Arc<str>,
        /// Where.
        port: u16,
    },
    /// Send these bytes.
    Write {
        /// On which connection.
        conn: ConnId,
        /// What.
        bytes: Outbound,
    },
    /// Close the socket.
    CloseConn(ConnId),
    /// Somebody waits for this receipt or watches it, and some of it, or all, is settled.
    Settled(Arc<Receipt>),
    /// There is room again: wake who waits on [`crate::produce::Words::room`].
    Room,
    /// What somebody flushed is settled: wake who waits on [`crate::produce::Words::progress`].
    Progress,
    /// Partitions of a topic are known, or what is wrong with it: wake who waits on
    /// [`crate::produce::Words::metadata`].
    TopicKnown,
    /// Worth telling.
    Notice(ProducerNotice),
    /// Nothing more will come of this producer; everything is settled.
    Fatal(FatalError),
    /// Closed: the loop may end.
    Finished,
}

/// Worth telling.
#[derive(Debug, Clone)]
pub enum ProducerNotice {
    /// Brokers and metadata.
    Cluster(ClusterNotice),
    /// Batches and the producer's identity.
    Produce(ProduceNotice),
}
