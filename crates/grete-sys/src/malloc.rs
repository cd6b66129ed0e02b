//! Settings of the C library's allocator.
#![allow(unsafe_code)]

/// Makes malloc map each block of at least `bytes` by itself from now on, and return the block to the system when the
/// block is freed. Returns whether the allocator can do so: glibc's, outside of the portable build.
///
/// By default glibc raises this size with each large block that is freed, up to 32 MiB. Freed blocks below that size
/// stay in the heap of their thread, and their pages stay in memory.
pub fn map_blocks_from(bytes: usize) -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(grete_portable)))]
    {
        let Ok(bytes) = libc::c_int::try_from(bytes) else { return false };
        // SAFETY: mallopt(3) takes no pointers and locks the allocator's state.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, bytes) == 1 }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(grete_portable))))]
    {
        let _ = bytes;
        false
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu", not(grete_portable)))]
mod tests {
    use super::*;

    fn mapped_bytes() -> usize {
        // SAFETY: mallinfo2(3) takes no pointers and locks the allocator's state.
        unsafe { libc::mallinfo2() }.hblkhd
    }

    #[test]
    fn a_large_block_is_mapped_although_larger_ones_were_freed() {
        const BLOCK: usize = 8 << 20;
        drop(std::hint::black_box(vec![1_u8; 2 * BLOCK])); // raises the size from which blocks are mapped
        let before = mapped_bytes();
        let block = std::hint::black_box(vec![1_u8; BLOCK]);
        assert!(mapped_bytes() < before + BLOCK, "glibc's default has changed");
        drop(block);
        assert!(map_blocks_from(1 << 20));
        let before = mapped_bytes();
        // More than the heap has free, less than what was mapped before.
        let block = std::hint::black_box(vec![1_u8; BLOCK + BLOCK / 2]);
        assert!(mapped_bytes() >= before + block.len());
    }
}
