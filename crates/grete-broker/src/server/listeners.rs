//! Listening sockets of the brokers.

use std::io;
use std::net::{IpAddr, SocketAddr};

use grete_sys::{NotInherited, fork};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use super::ServerError;
use crate::ids::BrokerId;

/// Listeners have the tokens below this one, in the order of the brokers.
pub(super) const MAX_LISTENERS: usize = 1 << 16;

/// Connections that wait to be accepted. When more come at once, the kernel drops a client's SYN, and the client tries
/// again after a second.
const BACKLOG: i32 = 1024;

/// Listeners of all brokers.
#[derive(Debug)]
pub(super) struct Listeners(Vec<Listener>);

#[derive(Debug)]
struct Listener {
    broker: BrokerId,
    address: SocketAddr,
    /// Bound to the same address and never listening. A broker that stops listening keeps its port: no other process
    /// gets the port as a free one, and connections are refused.
    _reservation: NotInherited<Socket>,
    /// `None`: the broker does not listen.
    socket: Option<NotInherited<TcpListener>>,
}

impl Listeners {
    pub(super) fn bind(host: IpAddr, ports: &[(BrokerId, u16)]) -> Result<Self, ServerError> {
        let bind = |&(broker, port): &(BrokerId, u16)| {
            let address = SocketAddr::new(host, port);
            Listener::bind(broker, address).map_err(|source| ServerError::Listen { broker, address, source })
        };
        ports.iter().take(MAX_LISTENERS).map(bind).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn addresses(&self) -> Vec<(BrokerId, SocketAddr)> {
        self.0.iter().map(|listener| (listener.broker, listener.address)).collect()
    }

    /// Starts to report connections to the selector.
    pub(super) fn register(&mut self, registry: &Registry) -> io::Result<()> {
        self.0.iter_mut().enumerate().try_for_each(|(index, listener)| listener.register(registry, Token(index)))
    }

    /// Accepts the next connection of the listener with this index. `WouldBlock`: there is none.
    pub(super) fn accept(&self, index: usize) -> io::Result<(BrokerId, NotInherited<TcpStream>, SocketAddr)> {
        let listener = self.0.get(index);
        let Some((listener, socket)) = listener.and_then(|listener| Some((listener, listener.socket.as_ref()?))) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let hold = fork::hold_off();
        let (stream, peer) = socket.accept()?;
        Ok((listener.broker, NotInherited::new(stream, &hold), peer))
    }

    /// Closes the listener of a broker. Connections that were not accepted yet are reset.
    pub(super) fn stop(&mut self, broker: BrokerId) {
        for listener in self.0.iter_mut().filter(|listener| listener.broker == broker) {
            listener.socket = None;
        }
    }

    /// Listens again on the same port. No effect while the broker listens.
    pub(super) fn listen(&mut self, broker: BrokerId, registry: &Registry) -> io::Result<()> {
        for (index, listener) in self.0.iter_mut().enumerate() {
            if listener.broker == broker && listener.socket.is_none() {
                listener.socket = Some(listening(listener.address)?);
                listener.register(registry, Token(index))?;
            }
        }
        Ok(())
    }
}

/// Creates a socket that listens.
fn listening(address: SocketAddr) -> io::Result<NotInherited<TcpListener>> {
    NotInherited::create(|| {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from_std(socket.into()))
    })
}

impl Listener {
    fn bind(broker: BrokerId, address: SocketAddr) -> io::Result<Self> {
        let reservation = NotInherited::create(|| {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
            // Both sockets have the option, so that both may be bound as long as one of them at most listens.
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            Ok(socket)
        })?;
        let address = reservation.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let socket = listening(address)?;
        Ok(Self { broker, address, _reservation: reservation, socket: Some(socket) })
    }

    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.socket.as_mut().map_or(Ok(()), |socket| registry.register(&mut **socket, token, Interest::READABLE))
    }
}
