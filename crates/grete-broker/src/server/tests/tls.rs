use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;

fn start_tls(made: &DevCertificates, mutual: bool) -> Server<Scripted> {
    let client_ca = mutual.then_some(made.ca.as_str());
    let tls = TlsConfig::new(&made.broker, &made.broker_key, client_ca).unwrap();
    let config = ServerConfig { tls: Some(tls), ..ServerConfig::default() };
    Server::start(config, |_| Scripted::default(), |_| Ok(())).unwrap()
}

fn connect(made: &DevCertificates, address: SocketAddr) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(made.ca.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    StreamOwned::new(connection, stream)
}

#[test]
fn requests_of_any_size_pass_encrypted() {
    let made = DevCertificates::generate(vec!["localhost".into()]).unwrap();
    let server = start_tls(&made, false);
    let mut client = connect(&made, address(&server, 1));
    for bytes in [1, 1000, 3_000_000] {
        let request: Vec<u8> = [b"echo".to_vec(), vec![7; bytes]].concat();
        client.write_all(&Client::framed(&request)).unwrap();
        let mut response = vec![0; 4 + request.len()];
        client.read_exact(&mut response).unwrap();
        assert!(response == Client::framed(&request), "{bytes}");
    }
}

#[test]
fn clients_without_tls_or_certificate_are_refused_and_logged() {
    let made = DevCertificates::generate(vec!["localhost".into()]).unwrap();
    let server = start_tls(&made, true);
    let mut plain = Client::connect(address(&server, 1));
    plain.send(b"echo");
    // An alert: a plain client recognises by it that the port speaks TLS.
    assert_eq!(plain.read_to_end().first_chunk(), Some(&[0x15, 0x03]));
    let mut without = connect(&made, address(&server, 1));
    without.write_all(&Client::framed(b"echo")).unwrap();
    assert!(without.read_exact(&mut [0; 4]).unwrap_err().to_string().contains("CertificateRequired"));
    // The alert leaves before the line is written: only the end of the connection follows both.
    wait_for(&server, "closed", 2);
    let lines = server.log().lines();
    assert_eq!(lines.iter().filter(|line| line.contains("because TLS failed")).count(), 2, "{lines:?}");
}
