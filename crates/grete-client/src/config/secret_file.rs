//! Secrets from files, such as the mounted secrets of a container.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use grete_proto::secret::Secret;
use zeroize::Zeroizing;

use super::{ConfigError, Settings, invalid};

/// Maximum bytes of a file with a password.
const MAX_BYTES: u64 = 64 << 10;

/// Maximum bytes of a file with a bearer token.
const MAX_TOKEN_BYTES: u64 = 512 << 10;

/// Returns a secret, given as such or as the name of a file; `None`: neither is set. A newline at the end of a file is
/// the editor's, not the secret's.
pub(super) fn secret(settings: &Settings, name: &str, file: &str) -> Result<Option<Secret>, ConfigError> {
    let path = settings.text(file);
    if let Some(secret) = settings.secret(name) {
        // A variable of the environment that was forgotten would beat the file without a word.
        if !path.is_empty() {
            return Err(invalid(name, format!("{name} and {file} are both set: leave out one of them")));
        }
        return Ok(Some(secret.clone()));
    }
    if path.is_empty() {
        return Ok(None);
    }
    let wrong = |problem: String| invalid(file, format!("{file}: {path:?} {problem}"));
    let text = read(Path::new(path), MAX_BYTES).map_err(wrong)?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    if secret.is_empty() { Err(wrong("is empty".to_owned())) } else { Ok(Some(Secret::from(secret))) }
}

/// Reads a file with a bearer token, without the white space around the token.
///
/// # Errors
/// Says what is wrong with the file, and repeats nothing of its content.
pub fn read_token(path: &Path) -> Result<Secret, String> {
    let text = read(path, MAX_TOKEN_BYTES)?;
    let token = text.trim();
    if token.is_empty() { Err("is empty".to_owned()) } else { Ok(Secret::from(token)) }
}

/// Reads a whole file into one piece of memory, which is overwritten at the drop.
fn read(path: &Path, most: u64) -> Result<Zeroizing<String>, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let found = std::fs::metadata(path).map_err(unreadable)?;
    // Opening a FIFO blocks, and a device has no end.
    if !found.is_file() {
        return Err("is no regular file".to_owned());
    }
    let size = found.len();
    if size > most {
        return Err(format!("has {size} bytes: give a file with nothing but the secret"));
    }
    // With room for one byte more, the end is found without growing: memory that is given back keeps its bytes.
    let mut bytes = Zeroizing::new(vec![0; usize::try_from(size).unwrap_or(usize::MAX).saturating_add(1)]);
    let mut file = File::open(path).map_err(unreadable)?;
    let mut filled = 0;
    loop {
        match file.read(bytes.get_mut(filled..).unwrap_or_default()).map_err(unreadable)? {
            0 => break,
            n => filled += n,
        }
    }
    let read = bytes.get(..filled).filter(|read| read.len() < bytes.len());
    let text = read.ok_or("has changed while it was read: read it again")?;
    let text = std::str::from_utf8(text).map_err(|_| "is not UTF-8")?;
    Ok(Zeroizing::new(text.to_owned()))
}
