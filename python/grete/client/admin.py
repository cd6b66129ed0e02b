"""The admin client."""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self

from grete import _core, config
from grete.client.cluster import Broker, Cluster
from grete.client.configs import ConfigEntry
from grete.client.groups import GroupDescription, GroupListing, Lag, Reset, group_of
from grete.client.topics import NewTopic, TopicDescription, Value, texts, topic_of
from grete.errors import ClosedError, ConfigError, ForkedClientError, PartialResultError
from grete.processing import atexit
from grete.processing.notices import log_notices

logger = logging.getLogger("grete.client")

Place = Literal["earliest", "latest"] | datetime
"""A place in a partition: its first record, its end, or the first record from a time on (the end, if there is none)."""

Kind = Literal["topic", "broker"]

_TIMEOUT: float | None = 60.0
_AT_EXIT = 5.0


class Admin:
    """Topics, settings, groups and offsets of a cluster. Kafka's settings by their dotted names. Thread-safe.

    Each method asks whom it has to ask (any broker, the controller, a leader, a coordinator), again after what passes,
    until `timeout` seconds are up (None: never): then `TimeoutError` says what was waited for. Ctrl-C works.
    A method that takes several things tries all of them; the first error is raised, with the others as notes.

    ```
    with grete.client.Admin({"bootstrap.servers": "localhost:9092"}) as admin:
        admin.create_topic("orders", partitions=8)
    ```
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Starts the network thread; connects when something is asked. Raises ConfigError."""
        self._native = _core.Admin(config.client_pairs(settings))
        self._closed = False
        atexit.close_before_exit(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(ForkedClientError):  # a child that leaves the block leaves the parent's client alone
            self.close()

    # ---- topics

    def create_topic(
        self,
        topic: str,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, Value] | None = None,
        if_not_exists: bool = False,
        *,
        validate_only: bool = False,
        timeout: float | None = _TIMEOUT,
    ) -> bool:
        """Creates a topic; True if it was created, False if it was there and `if_not_exists` says to take it as it is.

        -1: as the broker's `num.partitions` and `default.replication.factor` say. Returns when every broker knows the
        topic and each partition has a leader, so that a produce to it works. (Kafka's answer comes before that; for
        a broker that does not answer it waits 5 seconds.) Raises TopicExistsError; KafkaError for what brokers refuse.
        """
        new = NewTopic(topic, partitions, replication_factor, config or {})
        made = self.create_topics([new], if_not_exists=if_not_exists, validate_only=validate_only, timeout=timeout)
        return made[topic]

    def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        if_not_exists: bool = False,
        validate_only: bool = False,
        timeout: float | None = _TIMEOUT,
    ) -> dict[str, bool]:
        """Creates topics, as `create_topic` does one. `validate_only`: only says whether it could be done."""
        wanted = list(topics)
        names = _names("create_topics", [topic.name for topic in wanted])
        if len(names) < len(wanted):
            raise ConfigError("create_topics was given two topics of one name", setting="topic")
        with self._logged() as native:
            made = native.create_topics([topic.told() for topic in wanted], if_not_exists, validate_only, timeout)
        return dict(zip(names, made, strict=True))

    def delete_topic(self, topic: str, *, timeout: float | None = _TIMEOUT) -> None:
        """Deletes a topic with all its records. Returns when no broker knows it any more. Raises UnknownTopicError."""
        self.delete_topics([topic], timeout=timeout)

    def delete_topics(self, topics: Iterable[str], *, timeout: float | None = _TIMEOUT) -> None:
        """Deletes topics, as `delete_topic` does one."""
        with self._logged() as native:
            native.delete_topics(_names("delete_topics", topics), timeout)

    def topics(self, internal: bool = False, *, timeout: float | None = _TIMEOUT) -> list[str]:
        """The names of all topics, in order. `internal`: Kafka's own, too."""
        return [topic.name for topic in self.all_topics(timeout=timeout) if internal or not topic.internal]

    def all_topics(self, *, timeout: float | None = _TIMEOUT) -> list[TopicDescription]:
        """All topics, Kafka's own among them, in the order of their names."""
        with self._logged() as native:
            return [topic_of(told) for told in native.topics(timeout)]

    def describe_topic(self, topic: str, *, timeout: float | None = _TIMEOUT) -> TopicDescription:
        """The topic's partitions, their leaders and replicas. Raises UnknownTopicError."""
        return self.describe_topics([topic], timeout=timeout)[topic]

    def describe_topics(
        self, topics: Iterable[str], *, timeout: float | None = _TIMEOUT
    ) -> dict[str, TopicDescription]:
        """Several topics, as `describe_topic` tells of one."""
        names = _names("describe_topics", topics)
        with self._logged() as native:
            return {told[0]: topic_of(told) for told in native.describe_topics(names, timeout)}

    def create_partitions(
        self, topic: str, total: int, *, validate_only: bool = False, timeout: float | None = _TIMEOUT
    ) -> None:
        """Adds partitions up to `total`; there is no way back. Returns when every broker knows them.

        Keys move: what had a key before may lie in another partition than what has it from now on.
        """
        with self._logged() as native:
            native.create_partitions([(topic, total)], validate_only, timeout)

    def delete_records(
        self, before: Mapping[tuple[str, int], int | Literal["latest"]], *, timeout: float | None = _TIMEOUT
    ) -> dict[tuple[str, int], int]:
        """Deletes the records before an offset ("latest": all), by (topic, partition); gives the first offsets left."""
        asked = [(topic, partition, -1 if to == "latest" else to) for (topic, partition), to in before.items()]
        with self._logged() as native:
            return dict(zip(before, native.delete_records(asked, timeout), strict=True))

    # ---- settings

    def config(self, topic: str, *, timeout: float | None = _TIMEOUT) -> dict[str, ConfigEntry]:
        """All settings of a topic, by name. Raises UnknownTopicError."""
        return self.configs("topic", topic, timeout=timeout)

    def configs(self, kind: Kind, name: str | int, *, timeout: float | None = _TIMEOUT) -> dict[str, ConfigEntry]:
        """All settings of a "topic", or of a "broker" by its id ("": those that all brokers share), by name."""
        with self._logged() as native:
            return {told[0]: ConfigEntry(*told) for told in native.config(kind, str(name), timeout)}

    def alter_config(
        self,
        topic: str,
        set: Mapping[str, Value] | None = None,  # noqa: A002
        delete: Iterable[str] = (),
        *,
        validate_only: bool = False,
        timeout: float | None = _TIMEOUT,
    ) -> None:
        """Sets some settings of a topic, and takes others back to their default; all others stay as they are.

        All of it or nothing is done. Brokers take it over a moment after the controller has answered.
        """
        self.alter_configs("topic", topic, set, delete, validate_only=validate_only, timeout=timeout)

    def alter_configs(
        self,
        kind: Kind,
        name: str | int,
        set: Mapping[str, Value] | None = None,  # noqa: A002
        delete: Iterable[str] = (),
        *,
        validate_only: bool = False,
        timeout: float | None = _TIMEOUT,
    ) -> None:
        """As `alter_config`, of a "topic" or a "broker" by its id ("": all brokers)."""
        back = _names("delete", delete, what="setting")
        with self._logged() as native:
            native.alter_config(kind, str(name), texts(set or {}), back, validate_only, timeout)

    # ---- groups

    def groups(self, states: Iterable[str] | None = None, *, timeout: float | None = _TIMEOUT) -> list[GroupListing]:
        """All groups ("Stable", "Empty"...: only those in such a state), asked for at every broker, by id.

        Raises PartialResultError, with what the other brokers said, when some do not answer; a broker that is down
        leaves the cluster's list of brokers after some seconds, and then its groups have moved.
        """
        wanted = _names("groups", states or (), what="state")
        with self._logged() as native:
            found, missing = native.groups(wanted, timeout)
        listings = [GroupListing(group, state, kind, protocol) for group, protocol, state, kind in found]
        if missing is not None:
            message = f"some groups are missing from the list: {missing}"
            raise PartialResultError(message, partial=listings) from missing
        return listings

    def describe_group(self, group: str, *, timeout: float | None = _TIMEOUT) -> GroupDescription:
        """The group's state and members, whichever protocol it follows. Raises UnknownGroupError."""
        return self.describe_groups([group], timeout=timeout)[group]

    def describe_groups(
        self, groups: Iterable[str], *, timeout: float | None = _TIMEOUT
    ) -> dict[str, GroupDescription]:
        """Several groups, as `describe_group` tells of one."""
        names = _names("describe_groups", groups, what="group")
        with self._logged() as native:
            return {told[0]: group_of(told) for told in native.describe_groups(names, timeout)}

    def delete_group(self, group: str, *, timeout: float | None = _TIMEOUT) -> None:
        """Deletes a group and its offsets. Raises UnknownGroupError; GroupNotEmptyError while it has members."""
        self.delete_groups([group], timeout=timeout)

    def delete_groups(self, groups: Iterable[str], *, timeout: float | None = _TIMEOUT) -> None:
        """Deletes groups, as `delete_group` does one."""
        with self._logged() as native:
            native.delete_groups(_names("delete_groups", groups, what="group"), timeout)

    def remove_members(self, group: str, instances: Iterable[str], *, timeout: float | None = _TIMEOUT) -> None:
        """Puts static members out of a group, by `group.instance.id`; the others get their partitions at once.

        Whoever closes as a static member stays in its group for `session.timeout.ms`. A member that still runs joins
        again. Raises KafkaError (UNKNOWN_MEMBER_ID) for an id that nobody in the group has.
        """
        with self._logged() as native:
            native.remove_members(group, _names("remove_members", instances, what="instance"), timeout)

    # ---- offsets

    def committed(self, group: str, *, timeout: float | None = _TIMEOUT) -> dict[tuple[str, int], int]:
        """The offsets that a group has committed (the next ones to read); none for a group that does not exist."""
        with self._logged() as native:
            return {(topic, partition): offset for topic, partition, offset in native.committed(group, timeout)}

    def lag(self, group: str, *, timeout: float | None = _TIMEOUT) -> dict[tuple[str, int], Lag]:
        """How far a group is behind, in each partition that it has committed an offset of."""
        with self._logged() as native:
            return {(topic, at): Lag(committed, end) for topic, at, committed, end in native.lag(group, timeout)}

    def offsets(
        self, places: Iterable[tuple[str, int, Place]], *, timeout: float | None = _TIMEOUT
    ) -> dict[tuple[str, int], int]:
        """The offsets that (topic, partition, "earliest" | "latest" | datetime) come to now. Naive times are local."""
        wanted = list(places)
        with self._logged() as native:
            found = native.offsets(wanted, timeout)
        return {(topic, partition): offset for (topic, partition, _), offset in zip(wanted, found, strict=True)}

    def reset_offsets(
        self,
        group: str,
        to: Mapping[tuple[str, int], int | Place],
        *,
        dry_run: bool = False,
        timeout: float | None = _TIMEOUT,
    ) -> dict[tuple[str, int], Reset]:
        """Commits other offsets for a group without members, by (topic, partition); says what they were and are now.

        `dry_run`: only says it. A group that does not exist is made. Raises GroupNotEmptyError while the group has
        members, OffsetError for an offset that is not in the log.
        """
        asked = [(topic, partition, place) for (topic, partition), place in to.items()]
        with self._logged() as native:
            done = native.reset_offsets(group, asked, dry_run, timeout)
        return {(topic, partition): Reset(before, after) for topic, partition, before, after in done}

    def delete_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]], *, timeout: float | None = _TIMEOUT
    ) -> None:
        """Forgets what a group has committed of these partitions.

        Raises UnknownGroupError; GroupNotEmptyError while a member reads one of the topics.
        """
        with self._logged() as native:
            native.delete_offsets(group, list(partitions), timeout)

    # ---- the client itself

    def cluster(self, *, timeout: float | None = _TIMEOUT) -> Cluster:
        """The cluster's id, controller and brokers."""
        with self._logged() as native:
            cluster, controller, brokers = native.cluster(timeout)
        return Cluster(cluster, controller, tuple(Broker(*broker) for broker in brokers))

    def close(self, timeout: float | None = 10.0) -> None:
        """Ends the network thread; calls under way in other threads end with ClosedError. Idempotent."""
        if self._closed:
            return
        self._closed = True
        atexit.forget(self)
        self._native.close(timeout)

    @property
    def described(self) -> str:
        """For those who ask what is still open."""
        return "grete.client.Admin"

    def close_at_exit(self) -> None:
        """For an admin client that nobody closed."""
        self.close(_AT_EXIT)

    def __repr__(self) -> str:
        return f"<grete.client.Admin{', closed' if self._closed else ''}>"

    @contextlib.contextmanager
    def _logged(self) -> Iterator[_core.Admin]:
        """The native client; afterwards, whatever came of it, its notices are logged."""
        if self._closed:
            raise ClosedError("this admin client is closed: make a new one")
        try:
            yield self._native
        finally:
            with contextlib.suppress(ForkedClientError):
                log_notices(logger, self._native.take_notices())


def _names(method: str, names: Iterable[str], what: str = "topic") -> list[str]:
    """Each once, in their order. A string is iterable, too, and letter by letter is not what was meant."""
    if isinstance(names, str):
        raise ConfigError(f'{method} takes a list of {what}s: {method}(["{names}"])', setting=what)
    return list(dict.fromkeys(names))
