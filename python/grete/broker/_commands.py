"""Commands to embedded brokers: topics, records, offsets, groups, faults and the clock."""

from __future__ import annotations

from collections.abc import Mapping

from grete import _units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from grete.broker._results import LoggedRequest, StoredRecord


# Conditions of faults that are numbers, with their minimum and meaning.
_NUMBERS = (
    ("times", 1, "a number of faults"),
    ("skip", 0, "a number of requests that pass"),
    ("partition", 0, "a number"),
    ("broker", 1, "a number"),
)
MAX_NUMBER = 2**31 - 1
# Conditions of faults.
_CONDITIONS = ("topic", "partition", "client_id", "except_client_id", "broker", "skip", "times")


class BrokerCommands:
    """Commands that run on the thread of the brokers. What they change is stored when they return."""

    broker_count: int
    """Number of brokers, also of those that were stopped."""

    def call(self, command: str, **arguments: Any) -> Any:
        """Runs a command by its name. Raises BrokerError if the command cannot be done."""
        raise NotImplementedError

    # Topics and records

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Creates a topic. Raises BrokerError if it exists, or if the name or a setting is invalid."""
        self.call("create_topic", name=name, partitions=partitions, configs=dict(configs or {}))

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with its records and committed offsets. Raises BrokerError if there is no such topic."""
        self.call("delete_topic", name=name)

    def topics(self) -> dict[str, int]:
        """Returns the topics with their numbers of partitions."""
        topics: dict[str, int] = self.call("topics")
        return topics

    def records(
        self, topic: str, partition: int | None = None, *, from_offset: int = -1, limit: int | None = None
    ) -> list[StoredRecord]:
        """Returns the records of a partition, or of all partitions in their order, without those of aborted or open
        transactions. `from_offset`: -1 for the log start. `limit`: maximum of each partition.
        """
        from grete.broker._results import StoredRecord

        partitions = range(len(self.offsets(topic))) if partition is None else [partition]
        limits = {} if limit is None else {"limit": limit}
        return [
            StoredRecord(topic, number, *fields)
            for number in partitions
            for fields in self.call("records", topic=topic, partition=number, from_offset=from_offset, **limits)
        ]

    def offsets(self, topic: str) -> list[tuple[int, int]]:
        """Returns the log start offset and the high watermark of each partition."""
        offsets: list[tuple[int, int]] = self.call("offsets", topic=topic)
        return offsets

    def compact(self, topic: str) -> None:
        """Compacts all partitions of a topic with `cleanup.policy=compact` at once."""
        self.call("compact", topic=topic)

    def enforce_retention(self) -> None:
        """Deletes what `retention.ms` and `retention.bytes` no longer keep, instead of every five minutes."""
        self.call("enforce_retention")

    # Groups

    def groups(self) -> dict[str, str]:
        """Returns the state of each group, for example `Stable`."""
        groups: dict[str, str] = self.call("groups")
        return groups

    def members(self, group: str) -> list[tuple[str, str]]:
        """Returns the member id and the `client.id` of each member."""
        members: list[tuple[str, str]] = self.call("members", group=group)
        return members

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Returns the committed offset of each (topic, partition). Empty: there is none."""
        return {partition: offset for partition, (offset, _) in self.call("committed", group=group).items()}

    def committed_metadata(self, group: str) -> dict[tuple[str, int], str]:
        """Returns the text that was committed with each offset."""
        return {partition: metadata for partition, (_, metadata) in self.call("committed", group=group).items()}

    def rebalance(self, group: str) -> None:
        """Starts a rebalance. Raises BrokerError if the group has no members."""
        self.call("force_rebalance", group=group)

    def expire_session(self, group: str, member: str = "") -> None:
        """Removes a member as if its heartbeats had stopped. `member`: member id, `group.instance.id` or `client.id`;
        "": all members.
        """
        self.call("expire_session", group=group, member=member)

    # Brokers and time

    def stop_broker(self, broker: int) -> None:
        """Stops one broker of the cluster (from 1): its connections end, and its partitions move to other replicas."""
        self.call("stop_broker", broker=broker)

    def start_broker(self, broker: int) -> None:
        """Starts a broker that was stopped, on the same port."""
        self.call("start_broker", broker=broker)

    def suspend_broker(self, broker: int) -> None:
        """Lets a broker hang like a process after SIGSTOP: its connections stay open, and nothing is answered. After
        9 seconds its partitions move to other replicas.
        """
        self.call("suspend_broker", broker=broker)

    def resume_broker(self, broker: int) -> None:
        """Lets a broker go on that hung. It handles the requests that came meanwhile."""
        self.call("resume_broker", broker=broker)

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Makes another replica the leader of a partition."""
        self.call("move_leader", topic=topic, partition=partition, broker=to)

    def move_coordinators(self) -> None:
        """Moves the coordinators of all groups and transactional ids to the next broker."""
        self.call("move_coordinators")

    def advance_clock(self, duration: str | float) -> None:
        """Moves the brokers' clock forward, by seconds or a text like "30s": sessions, long polls, retention and
        transactions see the new time at once.
        """
        self.call("advance_clock", ms=round(_units.seconds(duration) * 1000))

    # Faults

    def fail(self, api: str, error: str, **where: Any) -> None:
        """Answers requests of an API with an error, for example `fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)`.

        Conditions, also of the methods below: `topic`, `partition`, `client_id`, `broker` (None: any),
        `except_client_id`: client whose requests pass, `skip`: number of matching requests that pass first, `times`:
        number of faults (None: until `heal`). In Produce, Fetch and ListOffsets the error is the one of the partitions
        that match.
        """
        self._add_fault("error", api, where, error=error)

    def delay(self, api: str | None, duration: str | float, **where: Any) -> None:
        """Handles requests later, by seconds or a text like "2s"."""
        self._add_fault("delay", api, where, ms=round(_units.seconds(duration) * 1000))

    def disconnect(self, api: str | None, *, handled: bool = False, **where: Any) -> None:
        """Closes the connection instead of a response. `handled`: the request takes effect before."""
        self._add_fault("disconnect_after" if handled else "disconnect", api, where)

    def never_answer(self, api: str | None, **where: Any) -> None:
        """Neither handles requests nor answers them; the connection stays open."""
        self._add_fault("never_answer", api, where)

    def half_answer(self, api: str | None, **where: Any) -> None:
        """Handles requests and closes the connection in the middle of the response."""
        self._add_fault("half_frame", api, where)

    def heal(self) -> None:
        """Ends all faults. Requests that were never answered stay so."""
        self.call("clear_faults")

    def requests(self, api: str | None = None) -> list[LoggedRequest]:
        """Returns the latest 10,000 requests, or those of one API, the oldest first."""
        from grete.broker._results import LoggedRequest

        requests = [LoggedRequest(*fields) for fields in self.call("requests")]
        return [request for request in requests if api is None or request.api == api]

    def _add_fault(self, action: str, api: str | None, where: dict[str, Any], **details: Any) -> None:
        unknown = where.keys() - set(_CONDITIONS)
        if unknown:
            known = "topic, partition, client_id, broker, skip, times"
            raise TypeError(f"there is no condition {min(unknown)}: use {known}")
        for name, least, meaning in _NUMBERS:
            number = where.get(name)
            if number is not None and (not isinstance(number, int) or not least <= number <= MAX_NUMBER):
                raise ValueError(f"{name} is {meaning}, from {least} on, not {number!r}")
        if (broker := where.get("broker")) is not None and not 1 <= broker <= self.broker_count:
            raise ValueError(f"there is no broker {broker!r}: they have the numbers 1 to {self.broker_count}")
        self.call("add_fault", action=action, api=api, **details, **where)
