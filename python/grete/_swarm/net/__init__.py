"""Non-blocking servers inside the supervisor's loop.

- `server`, `connection`: listeners and connections with limits, for any protocol
- `probe_server`: probes over HTTP/1.1, which `_native.HttpProtocol` parses and encodes
"""
