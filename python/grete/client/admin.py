"""Admin client."""

import contextlib
import functools
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self

from grete import _native
from grete._config import layers
from grete._config.suggest import client_keyword
from grete._process import exit_hooks
from grete._suggest import checked_keywords
from grete.client import arguments
from grete.client._calls import CallThreads, awaitable
from grete.client._settings import from_configuration
from grete.client.acls import AclBinding, AclFilter, binding_from_native, binding_to_native, filter_to_native
from grete.client.cluster import Broker, Cluster, ConfigEntry
from grete.client.groups import GroupDescription, GroupListing, Lag, Reset, group_from_native
from grete.client.topics import ConfigValue, NewTopic, TopicDescription, config_texts, topic_from_native
from grete.client.transaction_admin import TransactionAdmin
from grete.errors import (
    AuthorizationError,
    ClosedError,
    ConfigError,
    ForkedClientError,
    PartialResultError,
    UnknownGroupError,
    UnknownTopicError,
)
from grete.instrumentation.emit import log_native_events

logger = logging.getLogger("grete.client")

OffsetSpec = Literal["earliest", "latest"] | datetime
"""A position in a partition: its first record, its end, or the first record from a time on (the end, if there is
none).
"""

ResourceKind = Literal["topic", "broker", "group"]

_TIMEOUT: float | None = 60.0
_SETTINGS_EXAMPLE = '{"retention.ms": 60000}'
_EXIT_CLOSE_TIMEOUT = 5.0


@checked_keywords("Admin", client_keyword)
class Admin(TransactionAdmin):
    """Manages topics, settings, groups, offsets and transactions of a cluster. Thread-safe.

    Kafka's settings have their dotted names.

    Each method sends its requests to the right brokers (any broker, the controller, a leader, a coordinator), and
    repeats them after transient errors, until `timeout` seconds are up (None: no limit). Then `TimeoutError` names the
    pending operation. Ctrl-C works. A method that takes several items tries all of them; the first error is raised,
    with the others as notes.

    ```
    with grete.client.Admin({"bootstrap.servers": "localhost:9092"}) as admin:
        admin.create_topic("orders", partitions=8)
    ```

    Each method has an awaitable twin with `_async` for event loops: `await admin.create_topic_async("orders")`.

    Settings:
        bootstrap.servers (str, default not set).
        client.id (str, default grete).
        request.timeout.ms (int, milliseconds, default 30000).
        default.api.timeout.ms (int, milliseconds, default 60000).
        reconnect.backoff.ms (int, milliseconds, default 50).
        reconnect.backoff.max.ms (int, milliseconds, default 1000).
        retry.backoff.ms (int, milliseconds, default 100).
        retry.backoff.max.ms (int, milliseconds, default 1000).
        metadata.max.age.ms (int, milliseconds, default 300000).
        connections.max.idle.ms (int, milliseconds, default 540000).
        socket.connection.setup.timeout.ms (int, milliseconds, default 10000).
        socket.connection.setup.timeout.max.ms (int, milliseconds, default 30000).
        allow.auto.create.topics (bool, default false).
        security.protocol (str, default PLAINTEXT).
        ssl.ca.location (str, default not set).
        ssl.ca.pem (str, default not set).
        ssl.truststore.type (str, default not set).
        ssl.truststore.password (str, default not set).
        ssl.truststore.password.file (str, default not set).
        ssl.certificate.location (str, default not set).
        ssl.certificate.pem (str, default not set).
        ssl.key.location (str, default not set).
        ssl.key.pem (str, default not set).
        ssl.key.password (str, default not set).
        ssl.key.password.file (str, default not set).
        ssl.keystore.location (str, default not set).
        ssl.keystore.type (str, default not set).
        ssl.keystore.password (str, default not set).
        ssl.keystore.password.file (str, default not set).
        ssl.crl.location (str, default not set).
        enable.ssl.certificate.verification (bool, default true).
        ssl.endpoint.identification.algorithm (str, default https).
        sasl.mechanism (str, default not set).
        sasl.username (str, default not set).
        sasl.password (str, default not set).
        sasl.password.file (str, default not set).
        sasl.jaas.config (str, default not set).
        sasl.allow.plaintext (bool, default false).
        sasl.oauthbearer.method (str, default default).
        sasl.oauthbearer.token.endpoint.url (str, default not set).
        sasl.oauthbearer.client.id (str, default not set).
        sasl.oauthbearer.client.secret (str, default not set).
        sasl.oauthbearer.client.secret.file (str, default not set).
        sasl.oauthbearer.scope (str, default not set).
        sasl.oauthbearer.extensions (str, default not set).
        sasl.oauthbearer.token.file (str, default not set).
        sasl.oauthbearer.token.provider (str, default not set).
        sasl.kerberos.service.name (str, default not set).
        sasl.kerberos.principal (str, default not set).
        sasl.kerberos.keytab (str, default not set).
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Starts the network thread, which connects at the first request. Raises ConfigError.

        Only `settings` count: `Admin.from_config()` reads `grete.toml` and the environment.
        """
        self._log = functools.partial(log_native_events, logger)
        self._native = _native.Admin(layers.client_config_pairs(settings), self._log)
        self._closed = False
        self._calls = CallThreads("grete-admin-call")
        exit_hooks.close_before_exit(self)

    @classmethod
    def from_config(cls, settings: Mapping[str, Any] | None = None) -> Self:
        """Makes an admin client with Kafka's settings of `grete.toml` and of GRETE_KAFKA_... variables.

        `settings` win over both. Raises ConfigError, which names the origin of a wrong setting.
        """
        return cls(from_configuration(settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(ForkedClientError):  # a child that leaves the block must not close the parent's client
            self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(ForkedClientError):
            await self.close_async()

    # ---- topics

    def create_topic(
        self,
        topic: str,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, ConfigValue] | None = None,
        if_not_exists: bool = False,
        *,
        validate_only: bool = False,
        timeout: float | None = _TIMEOUT,
    ) -> bool:
        """Creates a topic. True: it was created; False: it existed, and `if_not_exists` accepts it unchanged.

        -1: the broker's `num.partitions` and `default.replication.factor`. Returns when every broker knows the topic
        and each partition has a leader, so that a produce to it works. (Kafka's response comes before that. For a
        broker that does not respond it waits 5 seconds.) Raises TopicExistsError; KafkaError if brokers refuse it.
        """
        new = NewTopic(
            topic, partitions, replication_factor, arguments.settings_mapping("create_topic", config, _SETTINGS_EXAMPLE)
        )
        created = self.create_topics([new], if_not_exists=if_not_exists, validate_only=validate_only, timeout=timeout)
        return created[topic]

    def create_topics(
        self,
        topics: Iterable[NewTopic],
        *,
        if_not_exists: bool = False,
        validate_only: bool = False,
        timeout: float | None = _TIMEOUT,
    ) -> dict[str, bool]:
        """Creates topics, like `create_topic`. `validate_only`: only checks whether it is possible."""
        wanted = _new_topics(topics)
        names = arguments.names("create_topics", [topic.name for topic in wanted])
        if len(names) < len(wanted):
            raise ConfigError("create_topics was given two topics of one name", setting="topic")
        new = [topic.to_native() for topic in wanted]
        with self._logged() as native:
            created = native.create_topics(new, if_not_exists, validate_only, timeout)
        return dict(zip(names, created, strict=True))

    def delete_topic(self, topic: str, *, timeout: float | None = _TIMEOUT) -> None:
        """Deletes a topic with all its records. Returns when no broker knows it any more. Raises UnknownTopicError."""
        self.delete_topics([topic], timeout=timeout)

    def delete_topics(self, topics: Iterable[str], *, timeout: float | None = _TIMEOUT) -> None:
        """Deletes topics, like `delete_topic`."""
        with self._logged() as native:
            native.delete_topics(arguments.names("delete_topics", topics), timeout)

    def topics(self, internal: bool = False, *, timeout: float | None = _TIMEOUT) -> list[str]:
        """Returns the names of all topics, in order. `internal`: Kafka's own, too."""
        return [topic.name for topic in self.all_topics(timeout=timeout) if internal or not topic.internal]

    def all_topics(self, *, timeout: float | None = _TIMEOUT) -> list[TopicDescription]:
        """Returns all topics, Kafka's own among them, in the order of their names."""
        with self._logged() as native:
            return [topic_from_native(topic) for topic in native.topics(timeout)]

    def describe_topic(self, topic: str, *, timeout: float | None = _TIMEOUT) -> TopicDescription:
        """Returns the topic's partitions, their leaders and replicas. Raises UnknownTopicError."""
        return self.describe_topics([topic], timeout=timeout)[topic]

    def describe_topics(
        self, topics: Iterable[str], *, timeout: float | None = _TIMEOUT
    ) -> dict[str, TopicDescription]:
        """Describes several topics, like `describe_topic`."""
        names = arguments.names("describe_topics", topics)
        with self._logged() as native:
            return {topic[0]: topic_from_native(topic) for topic in native.describe_topics(names, timeout)}

    def create_partitions(
        self, topic: str, total: int, *, validate_only: bool = False, timeout: float | None = _TIMEOUT
    ) -> None:
        """Adds partitions up to `total`, which cannot be undone. Returns when every broker knows them.

        Keys move: older records of a key may be in another partition than its new ones.
        """
        (name,) = arguments.names("create_partitions", [topic])
        total = arguments.integer(total, "total", 1, arguments.MAX_PARTITION)
        with self._logged() as native:
            native.create_partitions([(name, total)], validate_only, timeout)

    def delete_records(
        self, before: Mapping[tuple[str, int], int | Literal["latest"]], *, timeout: float | None = _TIMEOUT
    ) -> dict[tuple[str, int], int]:
        """Deletes records before an offset ("latest": all), by (topic, partition). Returns the first offsets that
        remain.
        """
        targets = arguments.mapping_by_partition("delete_records", before, "4000")
        offsets = [-1 if to == "latest" else arguments.offset(to, '"latest"') for _, _, to in targets]
        targets = [(topic, partition, to) for (topic, partition, _), to in zip(targets, offsets, strict=True)]
        with self._logged() as native:
            return dict(zip(before, native.delete_records(targets, timeout), strict=True))

    # ---- settings

    def config(self, topic: str, *, timeout: float | None = _TIMEOUT) -> dict[str, ConfigEntry]:
        """Returns all settings of a topic, by name. Raises UnknownTopicError."""
        return self.configs("topic", topic, timeout=timeout)

    def configs(
        self, kind: ResourceKind, name: str | int, *, timeout: float | None = _TIMEOUT
    ) -> dict[str, ConfigEntry]:
        """Returns all settings of a "topic", a "group", or a "broker" by its id ("": those that all brokers share)."""
        with self._logged() as native:
            return {entry[0]: ConfigEntry(*entry) for entry in native.config(kind, str(name), timeout)}

    def alter_config(
        self,
        topic: str,
        set: Mapping[str, ConfigValue] | None = None,  # noqa: A002
        delete: Iterable[str] = (),
        *,
        validate_only: bool = False,
        timeout: float | None = _TIMEOUT,
    ) -> None:
        """Sets some settings of a topic, and restores the default of others; all others are unchanged.

        The change is atomic. Brokers apply it a moment after the controller has responded.
        """
        self.alter_configs("topic", topic, set, delete, validate_only=validate_only, timeout=timeout)

    def alter_configs(
        self,
        kind: ResourceKind,
        name: str | int,
        set: Mapping[str, ConfigValue] | None = None,  # noqa: A002
        delete: Iterable[str] = (),
        *,
        validate_only: bool = False,
        timeout: float | None = _TIMEOUT,
    ) -> None:
        """Same as `alter_config`, for a "topic", a "group", or a "broker" by its id ("": all brokers).

        A group has settings from Kafka 4.0 on, like `{"share.auto.offset.reset": "earliest"}`.
        """
        back = arguments.names("delete", delete, what="setting")
        values = config_texts(arguments.settings_mapping("alter_config", set, _SETTINGS_EXAMPLE))
        with self._logged() as native:
            native.alter_config(kind, str(name), values, back, validate_only, timeout)

    # ---- ACLs

    def describe_acls(self, wanted: AclFilter | None = None, *, timeout: float | None = _TIMEOUT) -> list[AclBinding]:
        """Returns the ACLs that a filter finds; None: all.

        Raises AuthorizationError without Describe on the cluster; KafkaError (SECURITY_DISABLED) from brokers
        without an authorizer.
        """
        native_filter = filter_to_native("describe_acls", AclFilter() if wanted is None else wanted)
        with self._logged() as native:
            return [binding_from_native(acl) for acl in native.describe_acls(native_filter, timeout)]

    def create_acls(self, acls: Iterable[AclBinding], *, timeout: float | None = _TIMEOUT) -> None:
        """Adds ACLs. One that exists already is no error. Brokers apply them a moment after the response.

        Raises AuthorizationError without Alter on the cluster; KafkaError for an ACL that brokers refuse, or
        (SECURITY_DISABLED) from brokers without an authorizer.
        """
        bindings = [binding_to_native("create_acls", acl) for acl in _listed("create_acls", acls, "AclBinding")]
        if bindings:
            with self._logged() as native:
                native.create_acls(bindings, timeout)

    def delete_acls(self, filters: Iterable[AclFilter], *, timeout: float | None = _TIMEOUT) -> list[list[AclBinding]]:
        """Removes the ACLs that filters find. Returns those that each filter has found. `[AclFilter()]` removes all.

        Raises AuthorizationError without Alter on the cluster; KafkaError (SECURITY_DISABLED) from brokers without an
        authorizer.
        """
        wanted = [filter_to_native("delete_acls", one) for one in _listed("delete_acls", filters, "AclFilter")]
        if not wanted:
            return []
        with self._logged() as native:
            found = native.delete_acls(wanted, timeout)
        return [[binding_from_native(acl) for acl in acls] for acls in found]

    # ---- groups

    def groups(self, states: Iterable[str] | None = None, *, timeout: float | None = _TIMEOUT) -> list[GroupListing]:
        """Returns all groups from all brokers, by id. `states`: only groups in one of these states ("Stable",
        "Empty"...).

        Raises PartialResultError, with the groups of the other brokers, when some do not respond. A broker that is down
        leaves the cluster's list of brokers after some seconds, and then its groups have moved.
        """
        wanted = arguments.names("groups", states or (), what="state")
        with self._logged() as native:
            found, missing = native.groups(wanted, timeout)
        listings = [GroupListing(group, state, kind, protocol) for group, protocol, state, kind in found]
        if missing is not None:
            message = f"some groups are missing from the list: {missing}"
            raise PartialResultError(message, partial=listings) from missing
        return listings

    def describe_group(self, group: str, *, timeout: float | None = _TIMEOUT) -> GroupDescription:
        """Returns the group's state and members, whichever protocol it follows. Raises UnknownGroupError."""
        return self.describe_groups([group], timeout=timeout)[group]

    def describe_groups(
        self, groups: Iterable[str], *, timeout: float | None = _TIMEOUT
    ) -> dict[str, GroupDescription]:
        """Describes several groups, like `describe_group`."""
        names = arguments.names("describe_groups", groups, what="group")
        with self._logged() as native:
            return {group[0]: group_from_native(group) for group in native.describe_groups(names, timeout)}

    def delete_group(self, group: str, *, timeout: float | None = _TIMEOUT) -> None:
        """Deletes a group and its offsets. Raises UnknownGroupError; GroupNotEmptyError while it has members."""
        self.delete_groups([group], timeout=timeout)

    def delete_groups(self, groups: Iterable[str], *, timeout: float | None = _TIMEOUT) -> None:
        """Deletes groups, like `delete_group`."""
        with self._logged() as native:
            native.delete_groups(arguments.names("delete_groups", groups, what="group"), timeout)

    def remove_members(self, group: str, instances: Iterable[str], *, timeout: float | None = _TIMEOUT) -> None:
        """Removes static members from a group, by `group.instance.id`; the others get their partitions at once.

        A static member that closes stays in its group for `session.timeout.ms`. A member that still runs joins again.
        Raises KafkaError (UNKNOWN_MEMBER_ID) for an id that no member of the group has.
        """
        with self._logged() as native:
            native.remove_members(group, arguments.names("remove_members", instances, what="instance"), timeout)

    # ---- offsets

    def committed(self, group: str, *, timeout: float | None = _TIMEOUT) -> dict[tuple[str, int], int]:
        """Returns the offsets that a group has committed (the next ones to read); empty for a group that does not
        exist.
        """
        with self._logged() as native:
            return {(topic, partition): offset for topic, partition, offset in native.committed(group, timeout)}

    def lag(self, group: str, *, timeout: float | None = _TIMEOUT) -> dict[tuple[str, int], Lag]:
        """Returns the lag of a group in each partition that it has committed an offset of, or that a member has.

        A partition without a committed offset has `committed` and `lag` None: only the consumer knows where it begins
        (`auto.offset.reset`). In a share group, the lag is the number of records that are not done. A group that has
        neither offsets nor members, or that does not exist, gives an empty dict, which is no lag of 0.
        """
        left = arguments.time_left(timeout)
        with self._logged() as native:
            lags = {(topic, at): Lag(committed, end) for topic, at, committed, end in native.lag(group, left())}
        try:
            described = self.describe_group(group, timeout=left())
        except UnknownGroupError:
            return lags
        shares: dict[tuple[str, int], tuple[int | None, int | None]] = {}
        if described.protocol == "share":
            with self._logged() as native:
                found = native.share_offsets(group, left())
            shares = {(topic, at): (start, waiting) for topic, at, start, waiting in found}
        assigned = {partition for member in described.members for partition in member.partitions}
        places = sorted((assigned | set(shares)) - set(lags))
        ends = self._ends(places, left)
        for at in places:
            start, waiting = shares.get(at, (None, None))
            lags[at] = Lag(start, ends.get(at), waiting)
        return lags

    def _ends(self, partitions: list[tuple[str, int]], left: Callable[[], float | None]) -> dict[tuple[str, int], int]:
        """Returns the ends of partitions, without those of topics that are deleted or may not be described."""
        found: dict[tuple[str, int], int] = {}
        for _, of_topic in itertools.groupby(partitions, key=lambda partition: partition[0]):
            with contextlib.suppress(UnknownTopicError, AuthorizationError):
                places: list[tuple[str, int, OffsetSpec]] = [(*partition, "latest") for partition in of_topic]
                found |= self.offsets(places, timeout=left())
        return found

    def offsets(
        self, places: Iterable[tuple[str, int, OffsetSpec]], *, timeout: float | None = _TIMEOUT
    ) -> dict[tuple[str, int], int]:
        """Returns the present offsets of (topic, partition, "earliest" | "latest" | datetime). Naive times are
        local.
        """
        wanted = arguments.start_offsets("offsets", places, "place")
        with self._logged() as native:
            found = native.offsets(wanted, timeout)
        return {(topic, partition): offset for (topic, partition, _), offset in zip(wanted, found, strict=True)}

    def reset_offsets(
        self,
        group: str,
        to: Mapping[tuple[str, int], int | OffsetSpec],
        *,
        dry_run: bool = False,
        timeout: float | None = _TIMEOUT,
    ) -> dict[tuple[str, int], Reset]:
        """Commits other offsets for a group without members, by (topic, partition). Returns the offsets before and
        after.

        In a share group, the records from the offset on are handed out again, and those before it never. `dry_run`:
        changes nothing. A group that does not exist is created. Raises GroupNotEmptyError while the group has members,
        OffsetError for an offset that is not in the log.
        """
        targets = arguments.mapping_by_partition("reset_offsets", to, '"earliest"')
        with self._logged() as native:
            done = native.reset_offsets(group, targets, dry_run, timeout)
        return {(topic, partition): Reset(before, after) for topic, partition, before, after in done}

    def delete_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]], *, timeout: float | None = _TIMEOUT
    ) -> None:
        """Deletes the offsets that a group has committed for these partitions.

        In a share group, the partitions are all that the group has read of their topics, and the group has no member.
        Raises UnknownGroupError; GroupNotEmptyError while a member reads one of the topics.
        """
        wanted = arguments.partitions("delete_offsets", partitions)
        with self._logged() as native:
            native.delete_offsets(group, wanted, timeout)

    # ---- the client itself

    def cluster(self, *, timeout: float | None = _TIMEOUT) -> Cluster:
        """Returns the cluster's id, controller and brokers."""
        with self._logged() as native:
            cluster, controller, brokers = native.cluster(timeout)
        return Cluster(cluster, controller, tuple(Broker(*broker) for broker in brokers))

    def close(self, timeout: float | None = 10.0) -> None:
        """Ends the network thread; calls under way in other threads end with ClosedError. Idempotent."""
        if self._closed:
            return
        self._closed = True
        exit_hooks.forget(self)
        self._native.close(timeout)
        self._calls.close()

    # ---- the same for asyncio

    create_topic_async = awaitable(create_topic)
    create_topics_async = awaitable(create_topics)
    delete_topic_async = awaitable(delete_topic)
    delete_topics_async = awaitable(delete_topics)
    topics_async = awaitable(topics)
    all_topics_async = awaitable(all_topics)
    describe_topic_async = awaitable(describe_topic)
    describe_topics_async = awaitable(describe_topics)
    create_partitions_async = awaitable(create_partitions)
    delete_records_async = awaitable(delete_records)
    config_async = awaitable(config)
    configs_async = awaitable(configs)
    alter_config_async = awaitable(alter_config)
    alter_configs_async = awaitable(alter_configs)
    describe_acls_async = awaitable(describe_acls)
    create_acls_async = awaitable(create_acls)
    delete_acls_async = awaitable(delete_acls)
    groups_async = awaitable(groups)
    describe_group_async = awaitable(describe_group)
    describe_groups_async = awaitable(describe_groups)
    delete_group_async = awaitable(delete_group)
    delete_groups_async = awaitable(delete_groups)
    remove_members_async = awaitable(remove_members)
    committed_async = awaitable(committed)
    lag_async = awaitable(lag)
    offsets_async = awaitable(offsets)
    reset_offsets_async = awaitable(reset_offsets)
    delete_offsets_async = awaitable(delete_offsets)
    cluster_async = awaitable(cluster)
    close_async = awaitable(close)

    @property
    def described(self) -> str:
        """Name in lists of open clients."""
        return "grete.client.Admin"

    def close_at_exit(self) -> None:
        """Closes an admin client that is still open when the interpreter ends."""
        self.close(_EXIT_CLOSE_TIMEOUT)

    def __repr__(self) -> str:
        return f"<grete.client.Admin{', closed' if self._closed else ''}>"

    @contextlib.contextmanager
    def _logged(self) -> Iterator[_native.Admin]:
        """Yields the native client, which logs events while a call waits. Logs the last events afterwards."""
        if self._closed:
            raise ClosedError("this admin client is closed: make a new one")
        try:
            yield self._native
        finally:
            with contextlib.suppress(ForkedClientError):
                self._log(self._native.drain_log_events())


def _listed(method: str, given: Iterable[object], what: str) -> list[object]:
    if isinstance(given, (str, bytes, AclBinding, AclFilter)) or not isinstance(given, Iterable):
        raise TypeError(f"{method} takes a list of {what}, not {type(given).__name__}")
    return list(given)


def _new_topics(topics: Iterable[NewTopic]) -> list[NewTopic]:
    listed = list(topics) if isinstance(topics, Iterable) else [None]
    if not all(isinstance(topic, NewTopic) for topic in listed):
        raise TypeError(f'create_topics takes a list like [NewTopic("orders", partitions=8)], not {topics!r}')
    return listed
