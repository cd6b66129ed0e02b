//! Endpoint of an agent or collector.

use std::path::PathBuf;

/// Endpoint of an agent or collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEndpoint {
    /// HTTP over TCP.
    Tcp {
        /// Host name or address; an IPv6 address without brackets.
        host: String,
        /// Port, at least 1.
        port: u16,
        /// Path prefix: empty, or with a leading and without a trailing slash.
        prefix: String,
    },
    /// HTTP over a Unix socket.
    Unix {
        /// Path of the socket, 2 to 107 bytes.
        path: PathBuf,
    },
}

impl AgentEndpoint {
    /// Returns the value of the Host header.
    pub(crate) fn authority(&self) -> String {
        match self {
            Self::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Tcp { host, port, .. } => format!("{host}:{port}"),
            Self::Unix { .. } => "localhost".into(),
        }
    }

    pub(crate) fn prefix(&self) -> &str {
        match self {
            Self::Tcp { prefix, .. } => prefix,
            Self::Unix { .. } => "",
        }
    }
}

impl AgentEndpoint {
    /// Parses a URL. `port`: the default if the URL has none.
    pub fn from_url(url: &str, port: u16) -> Result<Self, EndpointError> {
        parse(url, port).map_err(|reason| EndpointError::Url { url: url.into(), reason, port })
    }
}

/// Error of an endpoint.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The URL is not that of an agent.
    #[error(
        "agent={url:?} is no address of an agent: {reason}. Give \"http://HOST:PORT\" ({port} where no port is given) or \
         \"unix:///PATH/OF/SOCKET\""
    )]
    Url {
        /// URL as given.
        url: String,
        /// Cause.
        reason: &'static str,
        /// Default port.
        port: u16,
    },
}

fn parse(url: &str, port: u16) -> Result<AgentEndpoint, &'static str> {
    let Some((scheme, rest)) = url.split_once("://") else { return Err("it has no scheme") };
    // Other characters would corrupt the request's head.
    if url.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err("there is a space in it, or something that is not ASCII");
    }
    if rest.contains(['?', '#', '@']) {
        return Err("user names, queries and fragments are not supported");
    }
    match scheme {
        "unix" if !rest.starts_with('/') => Err("a socket's path begins with a slash: write three slashes"),
        "unix" if rest.len() < 2 || rest.len() > 107 => Err("a socket's path has 2 to 107 bytes"),
        "unix" => Ok(AgentEndpoint::Unix { path: rest.into() }),
        "http" => parse_tcp(rest, port),
        "https" => Err("agents are reached over plain HTTP, on the same host or through a proxy"),
        _ => Err("only http and unix are supported"),
    }
}

fn parse_tcp(rest: &str, default: u16) -> Result<AgentEndpoint, &'static str> {
    let (authority, prefix) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').ok_or("a bracket is not closed")?,
        None => authority.rfind(':').map_or((authority, ""), |colon| authority.split_at(colon)),
    };
    if host.is_empty() {
        return Err("it names no host");
    }
    if !authority.starts_with('[') && host.contains(':') {
        return Err("an IPv6 address must be in brackets");
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => default,
        Some(digits) => digits.parse().ok().filter(|&port| port > 0).ok_or("a port is a number from 1 to 65535")?,
        None => return Err("after the bracket comes a colon and the port"),
    };
    Ok(AgentEndpoint::Tcp { host: host.into(), port, prefix: prefix.trim_end_matches('/').into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let tcp = |url: &str| match AgentEndpoint::from_url(url, 8126) {
            Ok(AgentEndpoint::Tcp { host, port, prefix }) => (host, port, prefix),
            other => panic!("{other:?}"),
        };
        assert_eq!(tcp("http://localhost:8126"), ("localhost".into(), 8126, String::new()));
        assert_eq!(tcp("http://agent"), ("agent".into(), 8126, String::new()));
        assert_eq!(tcp("http://[::1]:99/dd/"), ("::1".into(), 99, "/dd".into()));
        assert_eq!(AgentEndpoint::from_url("http://[::1]:99", 1).expect("an agent").authority(), "[::1]:99");
        let unix = AgentEndpoint::from_url("unix:///var/run/apm.socket", 1).expect("an agent");
        assert_eq!(unix, AgentEndpoint::Unix { path: "/var/run/apm.socket".into() });
    }

    #[test]
    fn what_is_none_is_refused_with_the_reason() {
        for (url, reason) in [
            ("", "no scheme"),
            ("localhost:8126", "no scheme"),
            ("https://agent", "plain HTTP"),
            ("ftp://agent", "only http and unix"),
            ("http://", "no host"),
            ("http://agent:0", "a number"),
            ("http://agent:x", "a number"),
            ("http://agent:99999", "a number"),
            ("http://::1", "brackets"),
            ("http://[::1", "bracket"),
            ("http://[::1]8126", "colon"),
            ("http://agent\r\nX: y", "space"),
            ("http://me@agent", "user names"),
            ("unix://run/apm", "three"),
            ("unix:///", "107"),
        ] {
            let error = AgentEndpoint::from_url(url, 8126).expect_err("no address").to_string();
            assert!(error.contains(reason) && error.contains("unix:///PATH"), "{url}: {error}");
        }
    }
}
