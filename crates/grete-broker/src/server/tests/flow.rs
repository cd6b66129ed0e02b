//! Clients that send too much, read too little, or are closed.

use super::scripted::LARGE;
use super::*;
use crate::cluster::Action;
use crate::ids::ConnId;

#[test]
fn a_closed_connection_gets_all_of_its_last_response_even_if_requests_are_left_unread() {
    let server = start(1);
    let mut client = Client::connect(address(&server, 1));
    client.send(b"close");
    for _ in 0..100 {
        client.send(&[b'x'; 1000]);
    }
    let bytes = client.read_to_end();
    assert_eq!(bytes.len(), 4 + LARGE);
    // The machine gave the order, so it is not notified, and gets no further request.
    assert_eq!(server.call(|machine, _, _| (machine.count("closed"), machine.count("frame"))).unwrap(), (0, 1));
}

#[test]
fn a_paused_connection_hands_out_no_request_until_it_is_resumed() {
    let server = start(1);
    let mut client = Client::connect(address(&server, 1));
    client.send_raw(&[Client::framed(b"pause"), Client::framed(b"one"), Client::framed(b"two")].concat());
    assert_eq!(client.receive(), b"paused");
    client.send(b"three");
    // A request of another connection is served meanwhile.
    assert_eq!(Client::connect(address(&server, 1)).ask(b"other"), b"other");
    assert_eq!(server.call(|machine, _, _| machine.count("frame")).unwrap(), 2);
    server.call(|_, _, actions| actions.push(Action::ResumeReading(ConnId(1)))).unwrap();
    assert_eq!([client.receive(), client.receive(), client.receive()], [&b"one"[..], b"two", b"three"]);
}

#[test]
fn a_client_that_reads_no_responses_is_not_read_from() {
    let server = start(1);
    let mut client = Client::connect(address(&server, 1));
    for _ in 0..4 {
        client.send(b"large");
    }
    wait_for(&server, "frame", 1);
    // Another connection is served meanwhile, and after it no more requests of the first one were taken.
    assert_eq!(Client::connect(address(&server, 1)).ask(b"other"), b"other");
    assert_eq!(server.call(|machine, _, _| machine.count("frame large")).unwrap(), 1);
    for _ in 0..4 {
        assert_eq!(client.receive().len(), LARGE);
    }
    assert_eq!(client.ask(b"still there"), b"still there");
}

#[test]
fn a_client_that_leaves_too_much_unread_is_disconnected() {
    let server = start_with(1, Limits { unwritten_bytes: LARGE, ..Limits::default() });
    let mut patient = Client::connect(address(&server, 1));
    patient.send(b"large");
    wait_for(&server, "frame", 1);
    let mut client = Client::connect(address(&server, 1));
    client.send(b"four");
    wait_for(&server, "closed", 1);
    assert!(client.read_to_end().len() < 4 * LARGE);
    assert_eq!(patient.receive().len(), LARGE);
    let lines = server.shared.log().lines();
    assert!(lines.iter().any(|line| line.contains("unread")), "{lines:?}");
}

#[test]
fn a_request_beyond_the_limit_closes_the_connection() {
    let server = start_with(1, Limits { request_bytes: 1000, ..Limits::default() });
    let mut client = Client::connect(address(&server, 1));
    assert_eq!(client.ask(&[b'x'; 1000]).len(), 1000);
    client.send_raw(&1001_u32.to_be_bytes());
    assert_eq!(client.read_to_end(), b"");
    wait_for(&server, "closed", 1);
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once_until_one_ends() {
    let server = start_with(1, Limits { connections: 2, ..Limits::default() });
    let mut first = Client::connect(address(&server, 1));
    let mut second = Client::connect(address(&server, 1));
    assert_eq!((first.ask(b"one"), second.ask(b"two")), (b"one".to_vec(), b"two".to_vec()));
    for _ in 0..3 {
        assert_eq!(Client::connect(address(&server, 1)).read_to_end(), b"");
    }
    drop(first);
    wait_for(&server, "closed", 1);
    assert_eq!(Client::connect(address(&server, 1)).ask(b"three"), b"three");
    assert_eq!(server.shared.log().lines().len(), 1, "one line for all three");
}

#[test]
fn clients_that_together_leave_too_much_unread_lose_the_largest_connection() {
    let server = start_with(1, Limits { held_bytes: 2 * LARGE, ..Limits::default() });
    let mut slow: Vec<Client> = Vec::new();
    for count in 1..=4 {
        let mut client = Client::connect(address(&server, 1));
        client.send(b"large");
        wait_for(&server, "frame", count);
        slow.push(client);
    }
    wait_for(&server, "closed", 1);
    // The connections that are left can be used.
    let received: Vec<usize> = slow.iter_mut().filter_map(Client::try_receive).map(|frame| frame.len()).collect();
    assert!((1..4).contains(&received.len()) && received.iter().all(|&len| len == LARGE), "{received:?}");
    assert_eq!(Client::connect(address(&server, 1)).ask(b"other"), b"other");
}

#[test]
fn requests_that_do_not_end_are_held_up_to_a_limit() {
    let server = start_with(1, Limits { held_bytes: 3 << 20, ..Limits::default() });
    let halves: Vec<Client> = (0..8)
        .map(|_| {
            let mut client = Client::connect(address(&server, 1));
            // The server may have closed the connection before the end.
            let _ = client.try_send_raw(&(64_u32 << 20).to_be_bytes());
            let _ = client.try_send_raw(&vec![0; 1 << 20]);
            client
        })
        .collect();
    wait_for(&server, "closed", 5);
    assert_eq!(Client::connect(address(&server, 1)).ask(b"other"), b"other");
    drop(halves);
    wait_for(&server, "closed", 8);
}
