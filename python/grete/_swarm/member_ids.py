"""Member ids of nodes in groups with the consumer protocol (KIP-848), where clients make them (KIP-1082).

The coordinator gives the place of a killed member to no other member until its session ends. It takes a leave in the
dead member's name from any client that knows its id. The supervisor forks the next process of a node only after it has
reaped the process before, so it knows that this one is dead, and hands the id to the next one.
"""

import secrets


class MemberIds:
    """Ids of the members of one swarm: an own prefix, which no other swarm has, the node, and the pid."""

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(12)
        self._pids: dict[int, int] = {}

    def on_forked(self, node: int, pid: int) -> None:
        """Records the node's process, in the supervisor."""
        self._pids[node] = pid

    def for_process(self, node: int, pid: int) -> tuple[str, str | None]:
        """Returns the member id of the node's new process, and that of the process before; None: there was none."""
        before = self._pids.get(node)
        return self._member_id(node, pid), None if before is None else self._member_id(node, before)

    def _member_id(self, node: int, pid: int) -> str:
        return f"{self._prefix}-{node}-{pid}"
