//! Certificate of a server, asked for by one handshake.

use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

use super::context::TlsContext;
use super::validity::Validity;

impl TlsContext {
    /// Makes one handshake with the server of `host` at `address`, and returns the dates of the server's certificate.
    /// Blocks for up to `timeout`. `None`: the server has shown no certificate by then.
    pub fn server_validity(&mut self, host: &str, address: IpAddr, port: u16, timeout: Duration) -> Option<Validity> {
        let deadline = Instant::now() + timeout;
        let left = || Some(deadline.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero());
        let mut stream = self.connect(host).ok()?;
        let socket = TcpStream::connect_timeout(&(address, port).into(), left()?).ok()?;
        // A failure of the handshake comes after the certificate, so it does not count.
        let mut goes_on = true;
        while goes_on && stream.server_validity().is_none() {
            socket.set_write_timeout(Some(left()?)).ok()?;
            socket.set_read_timeout(Some(left()?)).ok()?;
            goes_on = stream.write_to(&socket).is_ok();
            goes_on &= matches!(stream.read(&socket, &mut |_| {}), Ok((n, _)) if n > 0);
        }
        stream.server_validity()
    }
}
