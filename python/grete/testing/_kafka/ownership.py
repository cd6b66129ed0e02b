"""Owners of the partitions of consumer groups while Apps of a test share them.

Each App knows its own partitions alone. A partition that one member has revoked, and the next one does not have yet, is
settled for both.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from grete._plural import counted
from grete.client import Admin, MemberDescription
from grete.errors import ClosedError, UnknownGroupError
from grete.testing._kafka.cluster import CLIENT_ID, Cluster

if TYPE_CHECKING:
    from grete.testing._kafka.running import RunningTestApp

# Group, topic and partition.
Place: TypeAlias = tuple[str, str, int]
# Seconds in which brokers answer.
_TIMEOUT = 30.0


class Ownership:
    """Owners of partitions among the Apps of one test. `apps` returns those that run."""

    def __init__(self, cluster: Cluster, apps: "Callable[[], list[RunningTestApp]]") -> None:
        self._cluster = cluster
        self._apps = apps
        self._admin: Admin | None = None

    def owners(self) -> dict[Place, str]:
        """Returns the `client.id` of the App that owns each partition."""
        found = {}
        for app in self._apps():
            try:
                for group, topic, partition in app.assignment():
                    found[group, topic, partition] = app.client_id
            except ClosedError:
                continue  # the App has ended
        return found

    def moving(
        self, group: str, ends: Iterable[tuple[str, int, int]], matched: Collection[str]
    ) -> list[tuple[str, int]]:
        """Returns the partitions with records to process that no App owns, but that the group gives to one of them, or
        has not assigned yet. `ends`: topic, partition and end offset. `matched`: topics of patterns, which an App may
        not know yet. Partitions of members outside of the test, or of an App that has crashed, do not move.
        """
        owned = self.owners()
        free = [(topic, partition, end) for topic, partition, end in ends if (group, topic, partition) not in owned]
        if not any(end for _, _, end in free):
            return []
        committed = self._cluster.committed(group)
        free = [(topic, partition, end) for topic, partition, end in free if committed.get((topic, partition), 0) < end]
        if not free:
            return []
        members: Sequence[MemberDescription] = ()
        with contextlib.suppress(UnknownGroupError):
            members = self._open_admin().describe_group(group, timeout=_TIMEOUT).members
        clients = {place: member.client for member in members for place in member.partitions}
        ours = {app.client_id for app in self._apps()}

        def moves(place: tuple[str, int]) -> bool:
            owner = clients.get(place)
            if owner is not None:
                return owner in ours
            # Members get new partitions and topics with their next metadata. Without members, partitions are assigned
            # by `partitions=`, and nothing reads the others.
            return bool(members) or place[0] in matched

        return [(topic, partition) for topic, partition, _ in free if moves((topic, partition))]

    def due(self, group: str, topics: Iterable[str]) -> list[str]:
        """Returns the partitions of a share group that have records to process, as texts."""
        wanted, found = set(topics), []
        lags = self._open_admin().lag(group, timeout=_TIMEOUT)
        unknown = wanted.difference(topic for topic, _ in lags)
        for (topic, partition), end in self._cluster.ends(unknown).items() if unknown else ():
            if end:
                found.append(f"{topic}[{partition}] has {counted(end, 'record')}, and no member of {group} yet")
        for (topic, partition), lag in lags.items():
            if topic not in wanted or not lag.end or lag.lag == 0:
                continue
            waiting = lag.end if lag.lag is None else lag.lag
            text = f"{topic}[{partition}] has {counted(waiting, 'record')} that no member has done"
            if lag.lag is None or lag.lag == lag.end:
                text += (
                    f'; a queue begins at the end of its topics, so records that were written before "{group}" had its '
                    "first member are skipped, unless the group has share.auto.offset.reset=earliest"
                )
            found.append(text)
        return found

    def close(self) -> None:
        """Closes the connections to the brokers."""
        if self._admin is not None:
            self._admin.close()

    def _open_admin(self) -> Admin:
        if self._admin is None:
            self._admin = Admin({"bootstrap.servers": self._cluster.bootstrap_servers, "client.id": CLIENT_ID})
        return self._admin
