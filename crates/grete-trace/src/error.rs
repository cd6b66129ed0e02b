//! What keeps a tracer from being made.

/// What keeps a tracer from being made.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Nothing can be reached by it.
    #[error(
        "agent={url:?} is no address of an agent: {reason}. Give \"http://HOST:PORT\" ({port} where no port is given) or \
         \"unix:///PATH/OF/SOCKET\""
    )]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
        /// That of URLs without one.
        port: u16,
    },
}
