//! Blocking client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(super) struct Client {
    pub(super) stream: TcpStream,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self { stream }
    }

    pub(super) fn framed(request: &[u8]) -> Vec<u8> {
        [&u32::try_from(request.len()).unwrap().to_be_bytes()[..], request].concat()
    }

    pub(super) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends as far as the server reads.
    pub(super) fn try_send_raw(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(super) fn send(&mut self, request: &[u8]) {
        self.send_raw(&Self::framed(request));
    }

    pub(super) fn receive(&mut self) -> Vec<u8> {
        self.try_receive().expect("a response")
    }

    /// Receives a response; `None`: the server closed the connection before its end.
    pub(super) fn try_receive(&mut self) -> Option<Vec<u8>> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).ok()?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        self.stream.read_exact(&mut frame).ok().map(|()| frame)
    }

    pub(super) fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        self.send(request);
        self.receive()
    }

    /// Reads until the server closes the connection; an error counts as its end.
    pub(super) fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Err(error) = self.stream.read_to_end(&mut bytes) {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "the connection stays open");
        }
        bytes
    }
}
