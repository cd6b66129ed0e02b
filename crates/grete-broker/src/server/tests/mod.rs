//! Servers with a scripted machine, and clients over TCP.

mod client;
mod flow;
mod lifecycle;
mod scripted;
mod tls;

use std::net::{Ipv4Addr, SocketAddr};

use super::*;
use client::Client;
use scripted::Scripted;

fn start(brokers: i32) -> Server<Scripted> {
    start_with(brokers, Limits::default())
}

fn start_with(brokers: i32, limits: Limits) -> Server<Scripted> {
    let ports = (1..=brokers).map(|broker| (broker, 0)).collect();
    Server::start(ServerConfig { ports, limits, ..ServerConfig::default() }, |_| Scripted::default(), |_| Ok(()))
        .unwrap()
}

fn address(server: &Server<Scripted>, broker: BrokerId) -> SocketAddr {
    server.addresses().iter().find(|(id, _)| *id == broker).unwrap().1
}

/// Waits until the machine has seen `count` events that begin with `prefix`.
fn wait_for(server: &Server<Scripted>, prefix: &'static str, count: usize) {
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while server.call(move |machine, _, _| machine.count(prefix)).unwrap() < count {
        assert!(std::time::Instant::now() < end, "no {count} events {prefix:?}");
        std::thread::yield_now();
    }
}

#[test]
fn each_broker_answers_on_its_own_port() {
    let server = start(3);
    assert_eq!(server.addresses().len(), 3);
    for (broker, address) in server.addresses() {
        assert_eq!(address.ip(), Ipv4Addr::LOCALHOST);
        assert_eq!(Client::connect(*address).ask(b"echo"), b"echo");
        let events = server.call(|machine, _, _| machine.events.clone()).unwrap();
        assert!(events.contains(&format!("accepted {broker} 127.0.0.1")), "{events:?}");
    }
}

#[test]
fn a_port_that_is_taken_is_an_error_with_the_address() {
    let server = start(1);
    let ports = vec![(7, address(&server, 1).port())];
    let config = ServerConfig { ports, ..ServerConfig::default() };
    let error = Server::start(config, |_| Scripted::default(), |_| Ok(())).unwrap_err().to_string();
    let expected = format!("broker 7 cannot listen on {}", address(&server, 1));
    assert!(error.starts_with(&expected) && error.contains("choose another port"), "{error}");
}

#[test]
fn requests_in_pieces_and_in_one_piece_are_answered_in_order() {
    let server = start(1);
    let mut client = Client::connect(address(&server, 1));
    let requests: Vec<Vec<u8>> =
        (0..50_u8).map(|n| [b"echo".to_vec(), vec![n; usize::from(n) * 40]].concat()).collect();
    client.send_raw(&requests.iter().flat_map(|request| Client::framed(request)).collect::<Vec<_>>());
    for request in &requests {
        assert_eq!(&client.receive(), request);
    }
    for byte in requests.iter().take(4).flat_map(|request| Client::framed(request)) {
        client.send_raw(&[byte]);
    }
    for request in requests.iter().take(4) {
        assert_eq!(&client.receive(), request);
    }
}

#[test]
fn the_machine_is_notified_of_closed_connections() {
    let server = start(1);
    let clients: Vec<_> = (0..5).map(|_| Client::connect(address(&server, 1))).collect();
    wait_for(&server, "accepted", 5);
    drop(clients);
    wait_for(&server, "closed", 5);
}

#[test]
fn the_machine_is_stepped_at_its_deadline() {
    let server = start(1);
    let mut client = Client::connect(address(&server, 1));
    assert_eq!(client.ask(b"later"), b"tick");
    let late = server.call(|machine, now, _| now - machine.ticked_for).unwrap();
    assert!((0..5000).contains(&late), "{late} ms");
}
