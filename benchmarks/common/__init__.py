"""Code that the benchmarks share: pinning, accounting, the broker, native programs, tables, plots."""
