use grete_wire::SegmentedBuf;
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};

use super::peer::{Pair, authority, context, leaf, params, server_config, trusting};

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 % 251) as u8).collect()
}

#[test]
fn bytes_pass_both_ways_in_any_pieces() {
    for version in [&TLS12, &TLS13] {
        let issuer = authority("CA");
        let server = server_config(&leaf(params(&["localhost"]), &issuer), None, version);
        for read_bytes in [1, 1000, usize::MAX] {
            let mut pair = Pair::new(&mut context(trusting(&issuer.pem())), "localhost", &server);
            pair.read_bytes = read_bytes;
            let large = pattern(if read_bytes == 1 { 40_000 } else { 1_000_000 });
            let mut message = SegmentedBuf::from(pattern(10));
            message.push_shared(large.clone().into());
            message.tail().extend_from_slice(b"end");
            pair.client.push(message);
            assert!(!pair.client.is_established());
            pair.run().expect("a connection");
            assert!(pair.client.is_established());
            assert_eq!(pair.server_received, [pattern(10), large.clone(), b"end".to_vec()].concat());
            pair.server_writes(&large);
            pair.run().expect("a connection");
            assert!(pair.received == large, "{read_bytes}");
        }
    }
}

#[test]
fn a_second_connection_resumes_the_session() {
    for version in [&TLS12, &TLS13] {
        let issuer = authority("CA");
        let server = server_config(&leaf(params(&["localhost"]), &issuer), None, version);
        let mut context = context(trusting(&issuer.pem()));
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut pair = Pair::new(&mut context, "localhost", &server);
            pair.run().expect("a connection");
            assert_eq!(pair.server.handshake_kind(), Some(kind));
        }
    }
}

#[test]
fn names_of_hosts_are_sent_and_compared() {
    let issuer = authority("CA");
    let server = server_config(&leaf(params(&["kafka_1", "b.example", "127.0.0.1", "::1"]), &issuer), None, &TLS13);
    let mut context = context(trusting(&issuer.pem()));
    for host in ["kafka_1", "b.example", "b.example.", "127.0.0.1", "::1"] {
        let mut pair = Pair::new(&mut context, host, &server);
        pair.run().expect(host);
        let name = host.parse::<std::net::IpAddr>().is_err().then(|| host.trim_end_matches('.'));
        assert_eq!(pair.server.server_name(), name);
    }
    assert!(context.connect("no name").is_err());
}

#[test]
fn damaged_records_are_errors_and_never_panics() {
    for version in [&TLS12, &TLS13] {
        let issuer = authority("CA");
        let server = server_config(&leaf(params(&["localhost"]), &issuer), Some(&issuer), version);
        let mut context = context(trusting(&issuer.pem()));
        for position in (0..3000).step_by(7) {
            let mut pair = Pair::new(&mut context, "localhost", &server);
            pair.damaged = Some(position);
            pair.read_bytes = 1 + position % 1500;
            // Early bytes fail the handshake, and late ones are beyond its end.
            let result = pair.run();
            assert!(position > 200 || result.is_err() || !pair.client.is_established(), "{position}");
        }
    }
}
