"""A node: its process on both sides of the fork.

- `process`, `pidfd`: the supervisor's side: fork, signal, reap; `report`, `json_fields`: parser of the report pipe
- `main`, `inherited_fds`, `file_buffers`, `cpu_affinity`: the child's side, from the fork to its end
- `metrics_segments`: shared memory with the metrics
"""
