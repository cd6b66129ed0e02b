//! A broker as the metadata names it.

use crate::ids::NodeId;

/// A broker as the metadata names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broker<'a> {
    /// Its id.
    pub id: NodeId,
    /// Where it listens.
    pub host: &'a str,
    /// On which port.
    pub port: u16,
    /// `broker.rack`, if it has one.
    pub rack: Option<&'a str>,
}
