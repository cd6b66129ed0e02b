//! Stops, listeners that close and open, commands, panics and forks.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;

use super::*;
use crate::cluster::Action;

#[test]
fn a_broker_that_stops_listening_keeps_its_port() {
    let server = start(2);
    let (first, second) = (address(&server, 1), address(&server, 2));
    let mut connected = Client::connect(first);
    assert_eq!(connected.ask(b"before"), b"before");
    for _ in 0..3 {
        server.call(|_, _, actions| actions.push(Action::StopListening(1))).unwrap();
        assert_eq!(TcpStream::connect(first).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert_eq!(connected.ask(b"open connections stay"), b"open connections stay");
        assert_eq!(Client::connect(second).ask(b"other"), b"other");
        server.call(|_, _, actions| actions.extend([Action::Listen(1), Action::Listen(1)])).unwrap();
        assert_eq!(Client::connect(first).ask(b"after"), b"after");
    }
}

#[test]
fn a_stopped_server_refuses_connections_and_commands_and_frees_its_ports() {
    let server = start(1);
    let address = address(&server, 1);
    let mut client = Client::connect(address);
    assert_eq!(client.ask(b"hello"), b"hello");
    server.stop();
    server.stop();
    assert_eq!(client.read_to_end(), b"");
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let error = server.call(|_, _, _| ()).unwrap_err();
    assert!(error.to_string().contains("stopped"), "{error}");
    assert!(server.wait(Duration::ZERO) && server.failure().is_none());
    let again = ServerConfig { ports: vec![(1, address.port())], ..ServerConfig::default() };
    let again = Server::start(again, |_| Scripted::default(), |_| Ok(())).unwrap();
    assert_eq!(Client::connect(again.addresses()[0].1).ask(b"again"), b"again");
}

#[test]
fn a_panic_of_the_machine_ends_waiting_commands_and_the_server() {
    let server = start(1);
    assert!(!server.wait(Duration::ZERO));
    Client::connect(address(&server, 1)).send(b"panic");
    assert!(server.wait(Duration::from_secs(10)));
    let error = server.call(|_, _, _| ()).unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    assert!(server.failure().is_some());
}

#[test]
fn a_command_that_panics_is_an_error() {
    let server = start(1);
    assert!(matches!(server.call(|_, _, _| panic!("as requested")), Err::<(), _>(ServerError::Ended(_))));
}

/// Descriptors of this process; none if the system has no /proc.
fn descriptors() -> Vec<String> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_forked_child_has_no_descriptor_of_the_server() {
    let server = start(2);
    let mut client = Client::connect(address(&server, 1));
    assert_eq!(client.ask(b"hello"), b"hello");
    // Other tests open descriptors at the same time, so only ports of this server count.
    let own: Vec<String> = descriptors().into_iter().filter(|fd| is_of(fd, &server)).collect();
    let status = fork::status_of_child(|| own.iter().all(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).is_err()));
    assert_eq!((status, own.is_empty()), (0, false));
    assert_eq!(client.ask(b"still there"), b"still there");
}

/// Returns whether the descriptor is a socket with a local port of the server.
fn is_of(fd: &str, server: &Server<Scripted>) -> bool {
    let Ok(link) = fs::read_link(format!("/proc/self/fd/{fd}")) else { return false };
    let link = link.to_string_lossy().into_owned();
    let Some(inode) = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')) else { return false };
    let table = fs::read_to_string("/proc/self/net/tcp").unwrap_or_default();
    table.lines().skip(1).any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port = fields.get(1).and_then(|local| local.split(':').nth(1));
        let port = port.and_then(|port| u16::from_str_radix(port, 16).ok());
        fields.get(9) == Some(&inode) && server.addresses().iter().any(|(_, address)| Some(address.port()) == port)
    })
}
