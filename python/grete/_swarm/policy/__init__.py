"""Decisions of the supervisor as pure state machines: facts in, actions out. No clock, no process, no I/O.

- `manager`: entry point, with a table of phases and events; `actions`: the actions that it returns
- `swarm_lifecycle`, `rolling_restart`: state of the whole swarm
- `node_lifecycle`, `node_state`, `backoff`: state of one node
- `health_rules`, `limits`, `stall_clock`: when a node has to stop
- `event_messages`, `wait_report`, `exit_status`: texts of events, and exit codes
"""
