//! Random numbers from the operating system.
#![allow(unsafe_code)]

/// Returns eight random bytes from the operating system. If getrandom(2) fails, the result is a mix of the clock, the
/// process id and a stack address. Not for secrets.
#[must_use]
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: `bytes` has room for the eight requested bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), libc::GRND_NONBLOCK) };
    if usize::try_from(got) == Ok(bytes.len()) {
        return u64::from_ne_bytes(bytes);
    }
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let address = std::ptr::from_ref(&bytes) as u64;
    u64::from(std::process::id()).rotate_left(32) ^ address ^ (since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::random;

    #[test]
    fn random_numbers_differ() {
        assert_ne!(random(), random());
    }
}
