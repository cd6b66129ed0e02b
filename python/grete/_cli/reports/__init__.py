"""Reports of commands.

- `info_report`: settings, routes and versions of `grete info`.
- `memory_report`: shared memory of `grete info --swarm`.
"""
