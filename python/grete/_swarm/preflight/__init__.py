"""Work before the first fork: `preload` prepares the memory that nodes share, `fork_safety` refuses what does not
survive a fork, or leaves nodes no memory of their own.

`platform` refuses systems other than Linux. `native_libraries` guesses which library started a native thread.
"""
