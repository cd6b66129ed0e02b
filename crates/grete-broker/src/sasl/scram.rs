//! SCRAM, the server's side (RFC 5802): two messages of the client, two answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::users::{Hash, ITERATIONS, Users, equal};

/// Login by SCRAM after the first message of the client.
#[derive(Debug)]
pub(super) struct Scram {
    hash: Hash,
    pub(super) username: String,
    nonce: String,
    /// First messages of client and server, which the proof covers.
    transcript: String,
}

impl Scram {
    /// Handles the first message of the client. Returns the state and the answer; `None`: the login fails.
    pub(super) fn begin(mechanism: &str, users: &Users, server_nonce: &str, message: &[u8]) -> Option<(Self, String)> {
        let hash = Hash::of(mechanism);
        // No channel binding, and no authorization id other than the user.
        let bare = std::str::from_utf8(message).ok()?.strip_prefix("n,")?.split_once(',')?.1;
        let mut fields = bare.split(',');
        let username = unquote(fields.next()?.strip_prefix("n=")?)?;
        let client_nonce = fields.next()?.strip_prefix("r=").filter(|nonce| !nonce.is_empty())?;
        let credential = users.credential(&username, hash)?;
        let nonce = format!("{client_nonce}{server_nonce}");
        let answer = format!("r={nonce},s={},i={ITERATIONS}", STANDARD.encode(&credential.salt));
        let transcript = format!("{bare},{answer}");
        Some((Self { hash, username, nonce, transcript }, answer))
    }

    /// Checks the proof of the client. Returns the server's signature; `None`: the login fails.
    pub(super) fn finish(&self, users: &Users, message: &[u8]) -> Option<String> {
        let (without_proof, proof) = std::str::from_utf8(message).ok()?.rsplit_once(",p=")?;
        let (binding, nonce) = without_proof.split_once(",r=")?;
        let header = STANDARD.decode(binding.strip_prefix("c=")?).ok()?;
        if !header.starts_with(b"n,") || nonce != self.nonce {
            return None;
        }
        let credential = users.credential(&self.username, self.hash)?;
        let message = format!("{},{without_proof}", self.transcript);
        let signature = self.hash.sign(&credential.stored_key, message.as_bytes());
        let proof = STANDARD.decode(proof).ok().filter(|proof| proof.len() == signature.len())?;
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(proof, signature)| proof ^ signature).collect();
        equal(&self.hash.hash(&client_key), &credential.stored_key).then(|| {
            let signature = self.hash.sign(&credential.server_key, message.as_bytes());
            format!("v={}", STANDARD.encode(signature))
        })
    }
}

/// Returns the name without escapes; `None`: an escape is malformed.
fn unquote(name: &str) -> Option<String> {
    let mut parts = name.split('=');
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let (character, rest) = part.split_at_checked(2)?;
        plain.push(match character {
            "2C" => ',',
            "3D" => '=',
            _ => return None,
        });
        plain.push_str(rest);
    }
    Some(plain)
}
