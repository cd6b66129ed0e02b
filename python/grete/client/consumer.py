"""Low-level consumer."""

import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsInt

from grete import _native
from grete._config import layers
from grete._config.suggest import client_keyword
from grete._native import Message, Messages
from grete._plural import counted
from grete._process import exit_hooks
from grete._suggest import checked_keywords
from grete.client import arguments
from grete.client._calls import CallThreads, awaitable
from grete.client._settings import from_configuration
from grete.client.groups import GroupMetadata, Membership
from grete.errors import ClosedError, ForkedClientError, GroupError
from grete.instrumentation.emit import log_native_events

if TYPE_CHECKING:
    from grete.client._asyncio.poller import AsyncioPoller

logger = logging.getLogger("grete.client")

StartOffset = int | Literal["earliest", "latest"] | datetime | None
"""Start offset: an offset, an end of the partition, the first record from a time on, or None: the committed offset."""

# Timeout in seconds of a close at the interpreter's end, which should be quick.
_EXIT_CLOSE_TIMEOUT = 5.0


@checked_keywords("Consumer", client_keyword)
class Consumer:
    """Reads partitions, one batch per `poll`. Kafka's settings by their dotted names; `group.id` only for groups.

    Thread-safe, except that one thread polls. `enable.auto.commit` is false by default: call `commit`.

    ```
    with grete.client.Consumer({"bootstrap.servers": "localhost:9092", "group.id": "g"}) as consumer:
        consumer.subscribe(["orders"])
        while messages := consumer.poll(timeout=10.0):
            ...
            consumer.commit(messages)
    ```

    `for messages in consumer` polls without a timeout, until the consumer is closed. In an event loop: `async with`,
    `async for messages in consumer`, `await consumer.poll_async()`, and a twin with `_async` of every call that waits.

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
        group.id (str, default not set).
        group.instance.id (str, default not set).
        group.protocol (str, default auto).
        group.remote.assignor (str, default not set).
        auto.offset.reset (str, default earliest).
        enable.auto.commit (bool, default false).
        auto.commit.interval.ms (int, milliseconds, default 5000).
        client.rack (str, default not set).
        isolation.level (str, default read_uncommitted).
        partition.assignment.strategy (str, default cooperative-sticky).
        session.timeout.ms (int, milliseconds, default 45000).
        heartbeat.interval.ms (int, milliseconds, default 3000).
        max.poll.interval.ms (int, milliseconds, default 300000).
        fetch.min.bytes (int, bytes, default 1).
        fetch.max.bytes (int, bytes, default 52428800).
        fetch.max.wait.ms (int, milliseconds, default 500).
        max.partition.fetch.bytes (int, bytes, default 2097152).
        queued_bytes (int, bytes, default 67108864).
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Starts the network thread, which connects when there is something to read. Raises ConfigError.

        `latency` beside Kafka's settings, like "100ms" or seconds: how long records may wait at the broker to be
        fetched together. A low rate then costs one Fetch per budget.

        Only `settings` count: `Consumer.from_config()` reads `grete.toml` and the environment.
        """
        pairs = layers.consumer_config_pairs(settings)
        _native.config_entries(pairs)
        self._log = functools.partial(log_native_events, logger)
        self._dispatcher = _native.Dispatcher(interruptible=True, log=self._log)
        self._worker = _native.Worker("poll", self._dispatcher)
        self._client = _native.Client(pairs, self._dispatcher, [])
        self._job: _native.Job | None = None
        self._next_position: tuple[str, int, int] | None = (
            None  # topic, partition and next offset of the job's messages
        )
        self._closed = False
        self._calls = CallThreads("grete-consumer-call")
        self._poller: AsyncioPoller | None = None
        exit_hooks.close_before_exit(self)

    @classmethod
    def from_config(cls, settings: Mapping[str, Any] | None = None) -> Self:
        """Makes a consumer with Kafka's settings of `grete.toml` and of GRETE_KAFKA_... variables.

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

    def __iter__(self) -> Iterator[Messages]:
        """Polls without a timeout, until the consumer is closed. Each batch counts as processed when the next one is
        asked for.
        """
        while not self._closed:
            try:
                messages = self.poll(None)
            except ClosedError:
                return  # another thread has closed the consumer
            if messages:
                yield messages

    async def __aiter__(self) -> AsyncIterator[Messages]:
        """Does the same as `__iter__`, and lets other tasks run. A task that is cancelled loses no messages."""
        while not self._closed:
            try:
                messages = await self.poll_async(None)
            except ClosedError:
                return
            if messages:
                yield messages

    def subscribe(self, topics: Sequence[str]) -> None:
        """Joins the group (`group.id`) for these topics; the group's members share the partitions.

        A topic that begins with `^` is a pattern: a regular expression for whole names. New topics that match are read
        within `metadata.max.age.ms` (5 minutes).
        """
        self._require_open().subscribe(arguments.subscribed(topics))

    def assign(self, partitions: Iterable[tuple[str, int, StartOffset]]) -> None:
        """Reads exactly these partitions, without a group: (topic, partition, offset). Replaces the assignment."""
        self._require_open().assign(arguments.start_offsets("assign", partitions, "offset"))
        self._next_position = None

    def poll(self, timeout: float | None = 1.0, max_messages: int = 10_000) -> Messages:
        """Returns the next records of one partition; empty after `timeout` seconds (None: no limit). Ctrl-C works.

        From here on the result of the last call counts as processed, for `commit()` without arguments. Raises permanent
        errors: no Kafka at any address, authorization refused, corrupt batch. All other errors are logged.
        """
        self._require_open()
        # A wrong argument must not end the last job: its records would be neither processed nor read again.
        timeout = arguments.seconds(timeout)
        max_messages = arguments.integer(max_messages, "max_messages", 1, arguments.MAX_RECORDS)
        done, self._job, self._next_position = self._job, None, None
        try:
            self._job = self._dispatcher.poll(self._worker, done, timeout, max_messages)
        finally:
            self._log(self._dispatcher.drain_log_events())
        if self._job is None:
            self._dispatcher.check()
            return Messages.empty()
        messages = self._job.messages or Messages.empty()
        self._next_position = (messages.topic, messages.partition, messages.next_offset)
        return messages

    async def poll_async(self, timeout: float | None = 1.0, max_messages: int = 10_000) -> Messages:  # noqa: ASYNC109
        """Runs `poll` for asyncio: the event loop goes on while there are no messages, and no thread waits.

        A cancelled wait has taken no messages: the next poll returns them. Raises the errors of `poll`; RuntimeError
        when two tasks poll at once.
        """
        timeout = arguments.seconds(timeout)
        if self._poller is None:
            # A caller with an event loop has imported asyncio; importing grete does not.
            from grete.client._asyncio.poller import AsyncioPoller

            self._poller = AsyncioPoller(self._dispatcher, self.poll)
        return await self._poller.poll(timeout, max_messages)

    def commit(
        self,
        x: Messages | Message | Mapping[tuple[str, int], SupportsInt] | None = None,
        timeout: float | None = 30.0,
    ) -> None:
        """Commits and waits for the broker's response.

        None: all records that `poll` has returned. Messages, a message: up to and including them. A dict: the next
        offset to read by (topic, partition). Raises KafkaError when the broker refuses, for example after a rebalance.
        """
        client = self._require_open()
        if x is None:
            done, self._job, self._next_position = self._job, None, None
            if done is not None:
                self._dispatcher.complete(done)
            client.commit(None, timeout)
        elif isinstance(x, Messages):
            if len(x):
                client.commit([(x.topic, x.partition, x.next_offset)], timeout)
        elif isinstance(x, Message):
            client.commit([(x.topic, x.partition, x.offset + 1)], timeout)
        elif isinstance(x, Mapping):
            wanted = arguments.mapping_by_partition("commit", x, "4000")
            client.commit([(topic, at, arguments.offset(int(offset))) for topic, at, offset in wanted], timeout)
        else:
            raise TypeError(
                f"commit takes Messages, a Message, {{(topic, partition): next offset}} or None, not {type(x).__name__}"
            )

    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = 30.0
    ) -> dict[tuple[str, int], int | None]:
        """Returns the group's committed offsets (the next ones to read) from the coordinator."""
        wanted = arguments.partitions("committed", partitions)
        return dict(zip(wanted, self._require_open().committed(wanted, timeout), strict=True))

    def offsets(
        self, partitions: Iterable[tuple[str, int, StartOffset]], timeout: float | None = 30.0
    ) -> dict[tuple[str, int], int]:
        """Asks the brokers for the present offsets of "earliest", "latest" or a time.

        The two ends of a partition are what other clients call its watermarks. `watermarks` returns those of the last
        fetch, without a request.
        """
        wanted = arguments.start_offsets("offsets", partitions, "offset")
        found = self._require_open().list_offsets(wanted, timeout)
        return {(topic, partition): offset for (topic, partition, _), offset in zip(wanted, found, strict=True)}

    def partitions(self, topic: str, timeout: float | None = 30.0) -> list[int]:
        """Looks up a topic's partitions at the brokers."""
        return self._require_open().partitions(topic, timeout)

    def position(self, topic: str, partition: int) -> int | None:
        """Returns the offset that `poll` continues from; None while it is not known."""
        client, partition = self._require_open(), arguments.partition(partition)
        # The lane's position advances when the present batch is given back, which the next poll does.
        if self._next_position is not None and self._next_position[:2] == (topic, partition):
            return self._next_position[2]
        return client.position(topic, partition)

    def watermarks(self, topic: str, partition: int) -> tuple[int, int] | None:
        """Returns the first offset and the end of the partition as of the last fetch, without a request.

        None before the first fetch of the partition. `offsets` asks the brokers.
        """
        return self._require_open().watermarks(topic, arguments.partition(partition))

    def seek(self, topic: str, partition: int, offset: StartOffset) -> None:
        """Moves the position in an assigned partition."""
        self._require_open().seek(topic, arguments.partition(partition), offset)
        self._next_position = None

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Stops fetching these partitions until `resume`."""
        self._require_open().pause(arguments.partitions("pause", partitions))

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Ends a pause."""
        self._require_open().resume(arguments.partitions("resume", partitions))

    def membership(self) -> Membership:
        """Returns the present membership of this consumer in its group, without a request to a broker."""
        return Membership(**self._require_open().membership())

    def group_metadata(self) -> GroupMetadata:
        """Returns the identity of this consumer in its group, for `producer.send_offsets`.

        Take it after the `poll` that returned the messages, and before the transaction ends.
        """
        group, member, generation, instance = self._require_open().group_member()
        if not group:
            raise GroupError("this consumer has no group: set group.id")
        return GroupMetadata(group, member, generation, instance)

    def assignment(self) -> list[tuple[str, int]]:
        """Returns the partitions that this consumer reads now."""
        return self._require_open().assignment()

    def statistics(self) -> dict[str, Any]:
        """Returns counters: bytes_received, fetches, queued_bytes, pinned_bytes, reconnects. And login_failure: why the
        last login failed, with the cure, or None. And authorization_failure: None here, because a consumer that may not
        use its group raises AuthorizationError.

        And partitions: a list with a dict for each assigned partition: topic, partition, position, high_watermark,
        source (the id of the broker that has sent the last records), lag,
        waits_for (the reason for which the partition does not move, in one word: see docs/stalls.md; None: all records
        were returned), wait (the same as a sentence), last_progress_seconds (the time for which poll has returned no
        record of the partition although records wait; 0: none waits).
        """
        return self._require_open().statistics()

    def close(self, timeout: float | None = 30.0) -> None:
        """Leaves the group and ends the network thread. With `enable.auto.commit`, commits first. Idempotent."""
        if self._closed:
            return
        self._closed = True
        exit_hooks.forget(self)
        done, self._job = self._job, None
        try:
            if done is not None:
                self._dispatcher.complete(done)
        finally:
            self._dispatcher.release_workers()
            self._client.close(timeout)
            self._log(self._dispatcher.drain_log_events())
            self._calls.close()

    # ---- the same for asyncio

    commit_async = awaitable(commit)
    committed_async = awaitable(committed)
    offsets_async = awaitable(offsets)
    partitions_async = awaitable(partitions)
    close_async = awaitable(close)

    @property
    def described(self) -> str:
        """Name in lists of open clients."""
        return "grete.client.Consumer"

    def close_at_exit(self) -> None:
        """Closes a consumer that is still open when the interpreter ends."""
        self.close(_EXIT_CLOSE_TIMEOUT)

    def __repr__(self) -> str:
        if self._closed:
            return "<grete.client.Consumer, closed>"
        count = len(self._client.assignment())
        return f"<grete.client.Consumer of {counted(count, 'partition')}>"

    def _require_open(self) -> _native.Client:
        if self._closed:
            raise ClosedError("this consumer is closed: make a new one")
        return self._client
