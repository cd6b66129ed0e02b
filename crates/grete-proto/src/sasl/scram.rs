//! SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), the client's side.
//!
//! The client proves that it knows the password without sending it, and the server proves the same with its signature.
//! A server that asks for few iterations could try passwords quickly afterwards; one that asks for many keeps the
//! network thread busy. Both bounds are checked before a hash is calculated.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use zeroize::Zeroizing;

use super::config::{Credentials, SaslConfig};
use super::error::SaslError;
use super::masking::{prepare, without_secrets};
use super::mechanism::Mechanism;

/// Fewest iterations: those of RFC 7677, and of Kafka.
pub(super) const MIN_ITERATIONS: u32 = 4096;
/// Most iterations: eight times Kafka's maximum of 16,384; about 0.1 s of the network thread.
pub(super) const MAX_ITERATIONS: u32 = 131_072;

const MAX_MESSAGE_BYTES: usize = 4096;
/// "n,," in base64: no channel binding.
const CHANNEL_BINDING: &str = "biws";

/// Exchange of one login.
#[derive(Debug)]
pub(super) struct Scram {
    mechanism: Mechanism,
    nonce: String,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The first message was sent; its part without the channel binding.
    First {
        bare: String,
    },
    /// The proof was sent; the expected signature of the server follows.
    Final {
        server_key: Zeroizing<Vec<u8>>,
        auth_message: String,
    },
    Done,
}

impl Scram {
    /// Begins a login: returns the exchange and the first message.
    pub(super) fn begin(config: &SaslConfig) -> (Self, Vec<u8>) {
        Self::begin_with(config, config.nonce())
    }

    #[cfg(test)]
    pub(super) fn with_nonce(config: &SaslConfig, nonce: &str) -> Self {
        Self::begin_with(config, nonce.to_owned()).0
    }

    fn begin_with(config: &SaslConfig, nonce: String) -> (Self, Vec<u8>) {
        let username = match config.credentials() {
            Credentials::Password { username, .. } => username.expose().to_owned(),
            Credentials::Token(_) | Credentials::Kerberos(_) => String::new(),
        };
        let bare = format!("n={},r={nonce}", quote(&prepare(&username, config.normalizes())));
        let first = format!("n,,{bare}").into_bytes();
        (Self { mechanism: config.mechanism(), nonce, state: State::First { bare } }, first)
    }

    /// Handles a message of the server. Returns the next message; `None`: the server has proven itself.
    pub(super) fn respond(
        &mut self,
        config: &SaslConfig,
        challenge: &[u8],
    ) -> Result<Option<Zeroizing<Vec<u8>>>, SaslError> {
        let text = std::str::from_utf8(challenge).map_err(|_| self.malformed("it is not UTF-8"))?;
        if text.len() > MAX_MESSAGE_BYTES {
            return Err(self.malformed("it is longer than 4096 bytes"));
        }
        match std::mem::replace(&mut self.state, State::Done) {
            State::First { bare } => self.prove(config, &bare, text).map(Some),
            State::Final { server_key, auth_message } => {
                self.verify(config, &server_key, &auth_message, text)?;
                Ok(None)
            }
            State::Done => Err(self.malformed("it came after the end")),
        }
    }

    fn prove(&mut self, config: &SaslConfig, bare: &str, server_first: &str) -> Result<Zeroizing<Vec<u8>>, SaslError> {
        let mut fields = server_first.split(',');
        let mut field = |name: char| fields.next().and_then(|field| field.strip_prefix(name)?.strip_prefix('='));
        // The combined nonce begins with the client's, which proves that the message answers this login.
        let nonce = field('r').ok_or_else(|| self.malformed("it does not begin with a nonce"))?;
        if nonce.len() <= self.nonce.len() || !nonce.starts_with(&self.nonce) {
            return Err(self.malformed("its nonce does not continue the client's"));
        }
        let salt = field('s').and_then(|salt| STANDARD.decode(salt).ok()).filter(|salt| !salt.is_empty());
        let salt = salt.ok_or_else(|| self.malformed("it has no salt"))?;
        let iterations = field('i').and_then(|count| count.parse().ok());
        let iterations: u32 = iterations.ok_or_else(|| self.malformed("it has no number of iterations"))?;
        if iterations < MIN_ITERATIONS {
            return Err(self.malformed("it asks for fewer than 4096 iterations, which would weaken the password"));
        }
        let iterations = NonZeroU32::new(iterations).filter(|count| count.get() <= MAX_ITERATIONS);
        let iterations = iterations.ok_or_else(|| self.malformed("it asks for more than 131072 iterations"))?;

        let without_proof = format!("c={CHANNEL_BINDING},r={nonce}");
        let auth_message = format!("{bare},{server_first},{without_proof}");
        let keys = Algorithms::of(self.mechanism);
        let salted = keys.salted_password(&password(config), &salt, iterations);
        let client_key = Zeroizing::new(keys.sign(&salted, b"Client Key"));
        let stored_key = digest::digest(keys.digest, &client_key);
        let mut proof = Zeroizing::new(keys.sign(stored_key.as_ref(), auth_message.as_bytes()));
        proof.iter_mut().zip(client_key.iter()).for_each(|(proof, key)| *proof ^= key);
        let server_key = Zeroizing::new(keys.sign(&salted, b"Server Key"));
        self.state = State::Final { server_key, auth_message };
        let encoded = Zeroizing::new(STANDARD.encode(&*proof));
        Ok(Zeroizing::new(format!("{without_proof},p={}", *encoded).into_bytes()))
    }

    fn verify(
        &self,
        config: &SaslConfig,
        server_key: &[u8],
        auth_message: &str,
        server_final: &str,
    ) -> Result<(), SaslError> {
        let first = server_final.split(',').next().unwrap_or_default();
        if let Some(error) = first.strip_prefix("e=") {
            let message = super::error::printable(&without_secrets(config, error, None)).into();
            return Err(SaslError::Refused { mechanism: self.mechanism, message });
        }
        let signature = first.strip_prefix("v=").and_then(|text| STANDARD.decode(text).ok());
        let signature = signature.ok_or_else(|| self.malformed("it has no signature"))?;
        let key = hmac::Key::new(Algorithms::of(self.mechanism).hmac, server_key);
        // Compares in constant time.
        hmac::verify(&key, auth_message.as_bytes(), &signature).map_err(|_| SaslError::ServerSignature)
    }

    fn malformed(&self, problem: &'static str) -> SaslError {
        SaslError::Malformed { mechanism: self.mechanism, problem }
    }
}

/// Hash functions of a mechanism.
struct Algorithms {
    digest: &'static digest::Algorithm,
    hmac: hmac::Algorithm,
    pbkdf2: pbkdf2::Algorithm,
}

impl Algorithms {
    fn of(mechanism: Mechanism) -> Self {
        if mechanism == Mechanism::ScramSha512 {
            Self { digest: &digest::SHA512, hmac: hmac::HMAC_SHA512, pbkdf2: pbkdf2::PBKDF2_HMAC_SHA512 }
        } else {
            Self { digest: &digest::SHA256, hmac: hmac::HMAC_SHA256, pbkdf2: pbkdf2::PBKDF2_HMAC_SHA256 }
        }
    }

    fn salted_password(&self, password: &[u8], salt: &[u8], iterations: NonZeroU32) -> Zeroizing<Vec<u8>> {
        let mut salted = Zeroizing::new(vec![0; self.digest.output_len()]);
        pbkdf2::derive(self.pbkdf2, iterations, salt, password, &mut salted);
        salted
    }

    fn sign(&self, key: &[u8], message: &[u8]) -> Vec<u8> {
        hmac::sign(&hmac::Key::new(self.hmac, key), message).as_ref().to_vec()
    }
}

fn password(config: &SaslConfig) -> Zeroizing<Vec<u8>> {
    match config.credentials() {
        Credentials::Password { password, .. } => {
            Zeroizing::new(prepare(password.expose(), config.normalizes()).into_owned().into_bytes())
        }
        Credentials::Token(_) | Credentials::Kerberos(_) => Zeroizing::default(),
    }
}

/// Escapes the two characters that a user name cannot have in a message.
fn quote(username: &str) -> String {
    username.replace('=', "=3D").replace(',', "=2C")
}
