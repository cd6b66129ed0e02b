//! Users and their passwords, which are kept as SCRAM credentials only.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use ring::{digest, hmac, pbkdf2};

/// Iterations of the hash: Kafka's minimum.
pub(super) const ITERATIONS: u32 = 4096;

/// Hash function of a SCRAM mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    pub(super) fn of(mechanism: &str) -> Self {
        if mechanism == "SCRAM-SHA-512" { Self::Sha512 } else { Self::Sha256 }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }

    pub(super) fn hash(self, bytes: &[u8]) -> Vec<u8> {
        digest::digest(self.digest(), bytes).as_ref().to_vec()
    }

    pub(super) fn sign(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec()
    }

    fn salted(self, password: &[u8], salt: &[u8]) -> Vec<u8> {
        let mut salted = vec![0; self.digest().output_len()];
        let iterations = NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(self.pbkdf2(), iterations, salt, password, &mut salted);
        salted
    }
}

/// Credentials of a user for one hash function (RFC 5802, section 3).
#[derive(Clone)]
pub(super) struct Credential {
    pub(super) salt: Vec<u8>,
    pub(super) stored_key: Vec<u8>,
    pub(super) server_key: Vec<u8>,
}

impl Credential {
    fn new(hash: Hash, password: &str, salt: Vec<u8>) -> Self {
        let salted = hash.salted(password.as_bytes(), &salt);
        let stored_key = hash.hash(&hash.sign(&salted, b"Client Key"));
        Self { salt, stored_key, server_key: hash.sign(&salted, b"Server Key") }
    }
}

/// Users and their passwords.
#[derive(Clone, Default)]
pub struct Users {
    by_name: BTreeMap<String, [Credential; 2]>,
}

impl Users {
    /// Adds a user, or replaces the password. `salt`: any number; hashes of a random one cannot be calculated ahead.
    pub fn set(&mut self, name: &str, password: &str, salt: u64) {
        let salted = |part: u8, hash| {
            let salt = hash_salt(name, salt, part);
            Credential::new(hash, password, salt)
        };
        self.by_name.insert(name.to_owned(), [salted(0, Hash::Sha256), salted(1, Hash::Sha512)]);
    }

    /// Removes a user. Open connections stay logged in until their session ends.
    pub fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    /// Returns whether there are no users.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn credential(&self, name: &str, hash: Hash) -> Option<&Credential> {
        let [sha_256, sha_512] = self.by_name.get(name)?;
        Some(if hash == Hash::Sha256 { sha_256 } else { sha_512 })
    }

    /// Returns whether the password is that of the user.
    pub(super) fn accepts(&self, name: &str, password: &[u8]) -> bool {
        let Some(credential) = self.credential(name, Hash::Sha256) else { return false };
        let salted = Hash::Sha256.salted(password, &credential.salt);
        let stored_key = Hash::Sha256.hash(&Hash::Sha256.sign(&salted, b"Client Key"));
        equal(&stored_key, &credential.stored_key)
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

/// Compares hashes without saying by the time it takes where they differ: both are hashed once more with one key.
pub(super) fn equal(left: &[u8], right: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"comparison");
    hmac::verify(&key, left, hmac::sign(&key, right).as_ref()).is_ok()
}

fn hash_salt(name: &str, salt: u64, part: u8) -> Vec<u8> {
    let seed = [&salt.to_be_bytes()[..], &[part], name.as_bytes()].concat();
    digest::digest(&digest::SHA256, &seed).as_ref().iter().take(16).copied().collect()
}
