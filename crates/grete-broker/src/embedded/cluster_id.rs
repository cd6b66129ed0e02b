//! Id of a cluster with stored data: the same after each start, as clients expect.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use grete_sys::random::random;

use super::EmbeddedError;

const FILE: &str = "cluster.id";

/// Longest id that is accepted, in bytes.
const MAX_LEN: usize = 64;

/// Returns the id in the data directory, or creates one.
pub(super) fn load_or_create(directory: &Path) -> Result<String, EmbeddedError> {
    let path = directory.join(FILE);
    let load = || -> io::Result<String> {
        match fs::read_to_string(&path) {
            Ok(id) if is_valid(id.trim()) => return Ok(id.trim().into()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Kafka's ids have 22 characters.
        let id = format!("{:016x}{:06x}", random(), random() >> 40);
        fs::create_dir_all(directory)?;
        File::create(&path)?.write_all(id.as_bytes())?;
        Ok(id)
    };
    load().map_err(|source| EmbeddedError::ClusterId { path: path.clone(), source })
}

fn is_valid(id: &str) -> bool {
    (1..=MAX_LEN).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
