"""Supervisor of a swarm: one process that never polls, and that forks, watches and replaces node processes.

- `supervisor`, `event_loop`: the process and its epoll loop; `policy`: its decisions, without I/O
- `node`: the forked process and its report pipe; `preflight`: checks and preloads before the fork
- `control`, `net`: control socket and HTTP probes; `status`: what they answer
- `commands`, `signal_pipe`, `sd_notify`, `housekeeping`, `instance_ids`: one concern each
"""
