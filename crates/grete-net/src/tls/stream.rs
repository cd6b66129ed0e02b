//! Encrypted byte stream over a socket that does not block.
//!
//! Received records are decrypted where the kernel put them, in a buffer that takes several at once. rustls copies each
//! decrypted record once, and the stream copies it into the frame reader's buffer. Bytes to send are encrypted
//! straight into the buffer that the kernel takes them from.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;

use grete_proto::tls_failure::TlsFailure;
use grete_wire::segmented_buf::{Segment, SegmentedBuf};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use zeroize::Zeroizing;

use super::failure::{Situation, closed_in_handshake, protocol_failure};
use super::validity::Validity;
use super::verifier::Observations;

/// Bytes of received records that are kept undecrypted. A record has 16 KiB, a message of the handshake 64 KiB at most.
const INCOMING_BYTES: usize = 80 << 10;
/// Encrypted bytes from which on no more is encrypted until the kernel takes them.
const OUTGOING_BYTES: usize = 256 << 10;
/// Plain bytes of one record.
const RECORD_BYTES: usize = 16 << 10;
/// Segments from this size on are encrypted from where they are; smaller ones are put together into one record first.
const LARGE_SEGMENT_BYTES: usize = 8 << 10;

/// Encrypted byte stream of one connection.
pub(crate) struct TlsStream {
    connection: UnbufferedClientConnection,
    observations: Arc<Observations>,
    /// Dates of the client's certificate; `None`: it has none.
    own: Option<Validity>,
    logs_in: bool,
    server_validity: Option<Validity>,
    accepted_issuers: Option<Vec<String>>,
    incoming: Vec<u8>,
    filled: usize,
    /// First bytes of the peer, to recognise one that does not speak TLS.
    beginning: Vec<u8>,
    plain: VecDeque<Segment>,
    /// Number of bytes of the first plain segment that are already encrypted.
    encrypted: usize,
    outgoing: Vec<u8>,
    /// Part of `outgoing` that the kernel has still to take.
    unsent: std::ops::Range<usize>,
    established: bool,
    /// The peer has sent data of the application, so that it has accepted the client.
    has_data: bool,
    /// The peer has announced the end of the stream.
    ended: bool,
}

/// Reason why an encrypted stream stops.
pub(crate) enum TlsEnd {
    Tls(TlsFailure),
    Io(io::Error),
}

impl TlsStream {
    pub(super) fn new(
        connection: UnbufferedClientConnection,
        observations: Arc<Observations>,
        own: Option<Validity>,
        logs_in: bool,
    ) -> Self {
        Self {
            connection,
            observations,
            own,
            logs_in,
            server_validity: None,
            accepted_issuers: None,
            incoming: vec![0; INCOMING_BYTES],
            filled: 0,
            beginning: Vec::new(),
            plain: VecDeque::new(),
            encrypted: 0,
            outgoing: Vec::new(),
            unsent: 0..0,
            established: false,
            has_data: false,
            ended: false,
        }
    }

    /// Returns whether the handshake is done.
    pub(crate) fn is_established(&self) -> bool {
        self.established
    }

    /// Returns the dates of the certificate that the server has shown; `None`: it has shown none yet.
    pub(super) fn server_validity(&self) -> Option<Validity> {
        self.server_validity
    }

    /// Returns whether the peer has announced the end of the stream.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns whether encrypted bytes wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns the failure for the end of a connection whose handshake the peer has not confirmed; `None`: it has.
    ///
    /// In TLS 1.3 a broker checks the client's certificate after the client has seen the end of the handshake, and
    /// its alert can be lost when it closes the connection.
    pub(crate) fn failure_at_end(&self) -> Option<TlsFailure> {
        let refused = self.established && !self.has_data && self.accepted_issuers.is_some();
        (!self.established || refused).then(|| closed_in_handshake(!self.beginning.is_empty(), &self.situation()))
    }

    /// Reads once from `source` and passes decrypted bytes to `on_plain`. Returns the number of bytes read and offered.
    pub(crate) fn read(
        &mut self,
        mut source: impl Read,
        on_plain: &mut dyn FnMut(&[u8]),
    ) -> Result<(usize, usize), TlsEnd> {
        let space = self.incoming.get_mut(self.filled..).unwrap_or_default();
        let offered = space.len();
        let n = source.read(space).map_err(TlsEnd::Io)?;
        if self.beginning.len() < 8 {
            self.beginning.extend(space.iter().take(n.min(8)));
        }
        self.filled += n;
        self.process(on_plain)?;
        if n > 0 && self.filled == self.incoming.len() {
            return Err(TlsEnd::Io(io::Error::new(io::ErrorKind::InvalidData, "a record of TLS is too large")));
        }
        Ok((n, offered))
    }

    /// Queues bytes to be encrypted.
    pub(crate) fn push(&mut self, bytes: SegmentedBuf) {
        self.plain.extend(bytes.into_segments().into_iter().filter(|segment| !segment.is_empty()));
    }

    /// Encrypts and writes until nothing waits or `sink` accepts no more. Returns whether nothing waits.
    pub(crate) fn write_to(&mut self, mut sink: impl Write) -> Result<bool, TlsEnd> {
        loop {
            if self.unsent.is_empty() {
                self.unsent = 0..0;
                self.process(&mut |_| {})?;
                if self.unsent.is_empty() {
                    return Ok(self.plain.is_empty() || !self.established);
                }
            }
            let bytes = self.outgoing.get(self.unsent.clone()).unwrap_or_default();
            match sink.write(bytes) {
                Ok(0) => return Err(TlsEnd::Io(io::ErrorKind::WriteZero.into())),
                Ok(n) => self.unsent.start += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TlsEnd::Io(error)),
            }
        }
    }

    fn situation(&self) -> Situation<'_> {
        Situation { logs_in: self.logs_in, own: self.own, accepted_issuers: self.accepted_issuers.as_deref() }
    }

    /// Steps TLS: decrypts all whole records, answers messages of the handshake, and encrypts what waits.
    fn process(&mut self, on_plain: &mut dyn FnMut(&[u8])) -> Result<(), TlsEnd> {
        let mut start = 0;
        let result = self.process_from(&mut start, on_plain);
        // Only the beginning of a record is left, so the move is cheap.
        self.incoming.copy_within(start..self.filled, 0);
        self.filled -= start;
        result
    }

    fn process_from(&mut self, start: &mut usize, on_plain: &mut dyn FnMut(&[u8])) -> Result<(), TlsEnd> {
        loop {
            let records = self.incoming.get_mut(*start..self.filled).unwrap_or_default();
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(records);
            let mut goes_on = true;
            let mut error = None;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(Ok(record)) = traffic.next_record() {
                        self.has_data = true;
                        on_plain(record.payload);
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    let out = Outgoing { bytes: &mut self.outgoing, unsent: &mut self.unsent };
                    out.append(0, |space| encode(&mut data, space));
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(), // the bytes are in `outgoing`
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    self.established = true;
                    let out = Outgoing { bytes: &mut self.outgoing, unsent: &mut self.unsent };
                    let exhausted = encrypt(&mut self.plain, &mut self.encrypted, out, |plain, space| {
                        match traffic.encrypt(plain, space) {
                            Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                                Err(Some(required_size))
                            }
                            Err(EncryptError::EncryptExhausted) => Err(None),
                            Ok(n) => Ok(n),
                        }
                    });
                    if exhausted {
                        error = Some(rustls::Error::EncryptError);
                    }
                    goes_on = false;
                }
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    self.ended = true;
                    goes_on = false;
                }
                Ok(_) => goes_on = false, // the handshake waits for the peer
                Err(failed) => error = Some(failed),
            }
            *start += discard;
            let observed = self.observations.take();
            self.server_validity = observed.server_validity.or(self.server_validity);
            self.accepted_issuers = observed.accepted_issuers.or(self.accepted_issuers.take());
            if let Some(error) = error {
                if !matches!(error, rustls::Error::AlertReceived(_)) {
                    self.encode_alert(*start);
                }
                let failure = observed.failure;
                let failure = failure.unwrap_or_else(|| protocol_failure(&error, &self.beginning, &self.situation()));
                return Err(TlsEnd::Tls(failure));
            }
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Appends the alert of a failure to the outgoing bytes, so that the broker's log says what happened. `start`: first
    /// byte that was not processed, because rustls remembers ranges of the bytes behind it.
    ///
    /// Called once: the alert comes first, and a second call would process the bytes that have failed again.
    fn encode_alert(&mut self, start: usize) {
        let records = self.incoming.get_mut(start..self.filled).unwrap_or_default();
        if let Ok(ConnectionState::EncodeTlsData(mut data)) = self.connection.process_tls_records(records).state {
            let out = Outgoing { bytes: &mut self.outgoing, unsent: &mut self.unsent };
            out.append(0, |space| encode(&mut data, space));
        }
    }

    /// Writes what the kernel takes at once, after a failure: the alert.
    pub(crate) fn write_alert(&mut self, mut sink: impl Write) {
        // The failure is reported in any case; the alert is a courtesy.
        let _ = sink.write(self.outgoing.get(self.unsent.clone()).unwrap_or_default());
    }
}

/// Encodes a message of the handshake. Returns the number of bytes written, or the number of bytes it needs.
fn encode(data: &mut EncodeTlsData<'_, ClientConnectionData>, space: &mut [u8]) -> Result<usize, usize> {
    match data.encode(space) {
        Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => Err(required_size),
        Err(EncodeError::AlreadyEncoded) => Ok(0),
        Ok(n) => Ok(n),
    }
}

/// End of the outgoing bytes.
struct Outgoing<'a> {
    bytes: &'a mut Vec<u8>,
    unsent: &'a mut std::ops::Range<usize>,
}

impl Outgoing<'_> {
    /// Lets `encode` write at the end. `encode` returns the number of bytes written, or the number of bytes it needs.
    fn append(self, expected: usize, mut encode: impl FnMut(&mut [u8]) -> Result<usize, usize>) {
        let mut needed = expected;
        // The second size is the one that `encode` asked for.
        for _ in 0..2 {
            let end = self.unsent.end;
            if self.bytes.len() < end + needed {
                self.bytes.resize(end + needed, 0);
            }
            match encode(self.bytes.get_mut(end..).unwrap_or_default()) {
                Ok(n) => {
                    self.unsent.end += n;
                    return;
                }
                Err(more) => needed = more,
            }
        }
    }
}

/// Encrypts plain segments until enough bytes wait to be sent. Returns whether the connection can encrypt no more.
fn encrypt(
    plain: &mut VecDeque<Segment>,
    encrypted: &mut usize,
    out: Outgoing<'_>,
    mut seal: impl FnMut(&[u8], &mut [u8]) -> Result<usize, Option<usize>>,
) -> bool {
    let Outgoing { bytes, unsent } = out;
    let mut exhausted = false;
    // May hold a password. It never grows, because the memory of a smaller one would keep its bytes.
    let mut small = Zeroizing::new(Vec::new());
    while !exhausted && unsent.len() < OUTGOING_BYTES {
        let Some(first) = plain.front() else { break };
        let rest = first.get(*encrypted..).unwrap_or_default();
        let taken = if rest.len() >= LARGE_SEGMENT_BYTES {
            let part = rest.get(..OUTGOING_BYTES).unwrap_or(rest);
            exhausted = seal_into(bytes, unsent, part, &mut seal);
            part.len()
        } else {
            small.clear();
            small.reserve_exact(RECORD_BYTES);
            gather(plain, *encrypted, &mut small);
            exhausted = seal_into(bytes, unsent, &small, &mut seal);
            small.len()
        };
        advance(plain, encrypted, taken);
    }
    exhausted
}

/// Puts small segments together, up to the size of a record.
fn gather(plain: &VecDeque<Segment>, encrypted: usize, out: &mut Vec<u8>) {
    let mut skipped = encrypted;
    for segment in plain {
        let rest = segment.get(skipped..).unwrap_or_default();
        skipped = 0;
        if out.len() + rest.len() > RECORD_BYTES || rest.len() >= LARGE_SEGMENT_BYTES {
            return;
        }
        out.extend_from_slice(rest);
    }
}

fn seal_into(
    bytes: &mut Vec<u8>,
    unsent: &mut std::ops::Range<usize>,
    plain: &[u8],
    seal: &mut impl FnMut(&[u8], &mut [u8]) -> Result<usize, Option<usize>>,
) -> bool {
    let expected = plain.len() + (plain.len() / RECORD_BYTES + 1) * 64;
    let mut exhausted = false;
    Outgoing { bytes, unsent }.append(expected, |space| {
        seal(plain, space).or_else(|needed| {
            exhausted = needed.is_none();
            needed.map_or(Ok(0), Err)
        })
    });
    exhausted
}

fn advance(plain: &mut VecDeque<Segment>, encrypted: &mut usize, mut n: usize) {
    while let Some(first) = plain.front() {
        let left = first.len().saturating_sub(*encrypted);
        if n < left {
            *encrypted += n;
            return;
        }
        n -= left;
        *encrypted = 0;
        plain.pop_front();
    }
}
