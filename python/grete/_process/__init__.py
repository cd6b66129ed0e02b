"""Process in which Grete runs: forks, exit hooks, its node, stacks, and callers of functions."""
