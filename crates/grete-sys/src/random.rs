//! Random numbers from the operating system.
#![allow(unsafe_code)]

/// Returns eight random bytes from the operating system. If the system has none, the result is a mix of the clock, the
/// process id and a stack address. Not for secrets.
#[must_use]
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    if fill(&mut bytes) {
        return u64::from_ne_bytes(bytes);
    }
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let address = std::ptr::from_ref(&bytes) as u64;
    u64::from(std::process::id()).rotate_left(32) ^ address ^ (since.as_nanos() as u64)
}

#[cfg(all(target_os = "linux", not(grete_portable)))]
fn fill(bytes: &mut [u8]) -> bool {
    // SAFETY: `bytes` has room for the requested bytes. The flag keeps the call from waiting while the system starts.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    usize::try_from(got) == Ok(bytes.len())
}

#[cfg(not(all(target_os = "linux", not(grete_portable))))]
fn fill(bytes: &mut [u8]) -> bool {
    // SAFETY: `bytes` has room for the requested bytes, of which getentropy gives all or none.
    unsafe { libc::getentropy(bytes.as_mut_ptr().cast(), bytes.len()) == 0 }
}

#[cfg(test)]
mod tests {
    use super::random;

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random(), random());
    }
}
