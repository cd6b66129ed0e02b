//! Frames and fields of Kafka's protocol, as far as the loops need them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::Failure;

/// Bytes in both directions, as they are or over TLS.
trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// One connection that asks and waits; both buffers are reused.
pub struct Connection {
    stream: Box<dyn Stream>,
    correlation: i32,
    request: Vec<u8>,
    response: Vec<u8>,
    length: usize,
}

impl Connection {
    pub fn open(bootstrap: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect(bootstrap)?;
        stream.set_nodelay(true)?;
        Ok(Self::over(Box::new(stream)))
    }

    /// Opens a connection over TLS. `authority`: PEM file with the certificate that signs the broker's.
    pub fn open_tls(bootstrap: &str, authority: &str) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authority)? {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let host = bootstrap.rsplit_once(':').ok_or("the address is HOST:PORT")?.0.to_owned();
        let session = ClientConnection::new(Arc::new(config), ServerName::try_from(host)?)?;
        let socket = TcpStream::connect(bootstrap)?;
        socket.set_nodelay(true)?;
        Ok(Self::over(Box::new(StreamOwned::new(session, socket))))
    }

    fn over(stream: Box<dyn Stream>) -> Self {
        Self { stream, correlation: 0, request: Vec::new(), response: Vec::new(), length: 0 }
    }

    /// Sends the request whose body `encode` appends, and waits. The answer's body is in [`Connection::answer`].
    pub fn ask(&mut self, api: i16, version: i16, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), Failure> {
        self.correlation += 1;
        let out = &mut self.request;
        out.clear();
        out.extend([0; 4]); // size, filled in below
        out.extend(api.to_be_bytes());
        out.extend(version.to_be_bytes());
        out.extend(self.correlation.to_be_bytes());
        string(out, "floor");
        encode(out);
        let size = (out.len() - 4) as i32;
        out[..4].copy_from_slice(&size.to_be_bytes());
        self.stream.write_all(out)?;
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        self.length = usize::try_from(i32::from_be_bytes(size))?;
        if self.response.len() < self.length {
            self.response.resize(self.length, 0);
        }
        self.stream.read_exact(&mut self.response[..self.length])?;
        if i32::from_be_bytes(take(&self.response[..self.length], &mut 0)?) != self.correlation {
            return Err("the answer is for another request".into());
        }
        Ok(())
    }

    /// The last answer, its correlation id included: the body begins at 4.
    pub fn answer(&self) -> &[u8] {
        &self.response[..self.length]
    }
}

pub fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as i16).to_be_bytes());
    out.extend(text.as_bytes());
}

pub fn take<const N: usize>(bytes: &[u8], at: &mut usize) -> Result<[u8; N], Failure> {
    let found = bytes.get(*at..).and_then(|rest| rest.first_chunk::<N>()).ok_or("the answer ends early")?;
    *at += N;
    Ok(*found)
}

pub fn skip(bytes: &[u8], at: &mut usize, length: i64) -> Result<(), Failure> {
    let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
    *at = end.filter(|end| *end <= bytes.len()).ok_or("the answer ends early")?;
    Ok(())
}

pub fn check(error: i16) -> Result<(), Failure> {
    if error == 0 { Ok(()) } else { Err(format!("the broker answered with error {error}").into()) }
}
