//! PLAIN (RFC 4616): one message with user name and password.

use zeroize::Zeroizing;

use crate::secret::Secret;

/// Returns the only message of the client: no authorization id, user name, password.
pub(super) fn message(username: &Secret, password: &Secret) -> Zeroizing<Vec<u8>> {
    let (username, password) = (username.expose().as_bytes(), password.expose().as_bytes());
    let mut bytes = Zeroizing::new(Vec::with_capacity(username.len() + password.len() + 2));
    bytes.push(0);
    bytes.extend_from_slice(username);
    bytes.push(0);
    bytes.extend_from_slice(password);
    bytes
}
