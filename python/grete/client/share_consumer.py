"""Low-level consumer of a share group."""

import contextlib
import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from grete import _native
from grete._config import layers
from grete._native import Message, Messages
from grete._plural import counted
from grete._process import exit_hooks
from grete.client import arguments
from grete.client._calls import CallThreads, awaitable
from grete.client._settings import from_configuration
from grete.client.groups import Membership
from grete.errors import ClosedError, ConfigError, ForkedClientError
from grete.instrumentation.emit import log_native_events

if TYPE_CHECKING:
    from grete.client._asyncio.poller import AsyncioPoller

logger = logging.getLogger("grete.client")

Acknowledgement = Literal["accept", "release", "reject"]

# Timeout in seconds of a close at the interpreter's end, which should be quick.
_EXIT_CLOSE_TIMEOUT = 5.0


class ShareConsumer:
    """Takes records from a share group (KIP-932), which hands each record to one member, and waits for its
    acknowledgement. Brokers of Kafka 4.2 or newer. Settings: those of `Consumer`; `group.id` is required.

    Thread-safe, except that one thread polls.

    ```
    with grete.client.ShareConsumer({"bootstrap.servers": "localhost:9092", "group.id": "tasks"}) as consumer:
        consumer.subscribe(["tasks"])
        while messages := consumer.poll(timeout=10.0):
            for message in messages:
                if not do(message):
                    consumer.acknowledge(message, "release")  # a member gets it again
            consumer.commit()  # the others are accepted
    ```

    Records that are neither acknowledged nor accepted by `commit` or the next `poll` go back at the close.
    """

    def __init__(self, settings: Mapping[str, Any], *, max_records: int = 500) -> None:
        """Starts the network thread, which connects when there is something to read. Raises ConfigError.

        `max_records`: records that this member may hold at once. No other member gets them meanwhile; their locks are
        renewed.
        """
        max_records = arguments.integer(max_records, "max_records", 1, arguments.MAX_RECORDS)
        pairs = layers.consumer_config_pairs(settings)
        _native.config_entries(pairs)
        if not dict(pairs).get("group.id"):
            raise ConfigError("a share consumer needs group.id: its members share the records", setting="group.id")
        self._log = functools.partial(log_native_events, logger)
        self._dispatcher = _native.Dispatcher(interruptible=True, log=self._log)
        self._worker = _native.Worker("poll", self._dispatcher)
        self._client = _native.Client(pairs, self._dispatcher, [], queue=max_records)
        self._job: _native.Job | None = None
        self._messages = Messages.empty()
        self._closed = False
        self._calls = CallThreads("grete-share-consumer-call")
        self._poller: AsyncioPoller | None = None
        exit_hooks.close_before_exit(self)

    @classmethod
    def from_config(cls, settings: Mapping[str, Any] | None = None, *, max_records: int = 500) -> Self:
        """Makes a consumer with Kafka's settings of `grete.toml` and of GRETE_KAFKA_... variables.

        `settings` win over both. Raises ConfigError, which names the origin of a wrong setting.
        """
        return cls(from_configuration(settings), max_records=max_records)

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
        """Polls without a timeout, until the consumer is closed. A batch is accepted when the next one is asked for."""
        while not self._closed:
            try:
                messages = self.poll(None)
            except ClosedError:
                return  # another thread has closed the consumer
            if messages:
                yield messages

    def subscribe(self, topics: Sequence[str]) -> None:
        """Joins the share group for these topics, or patterns as those of `Consumer.subscribe`."""
        self._require_open().subscribe(arguments.subscribed(topics))

    def poll(self, timeout: float | None = 1.0, max_messages: int = 10_000) -> Messages:
        """Returns records of one partition; empty after `timeout` seconds (None: no limit). Ctrl-C works.

        The records of the last call that are not acknowledged are accepted. Raises permanent errors: no Kafka at any
        address, no share groups, authorization refused. All other errors are logged.
        """
        self._require_open()
        # A wrong argument must not end the last job: its records would be neither accepted nor given back.
        timeout = arguments.seconds(timeout)
        max_messages = arguments.integer(max_messages, "max_messages", 1, arguments.MAX_RECORDS)
        done, self._job, self._messages = self._job, None, Messages.empty()
        try:
            self._job = self._dispatcher.poll(self._worker, done, timeout, max_messages)
        finally:
            self._log(self._dispatcher.drain_log_events())
        if self._job is None:
            self._dispatcher.check()
            return self._messages
        self._messages = self._job.messages or Messages.empty()
        return self._messages

    async def poll_async(self, timeout: float | None = 1.0, max_messages: int = 10_000) -> Messages:  # noqa: ASYNC109
        """Runs `poll` for asyncio: the event loop goes on while there are no messages, and no thread waits.

        A cancelled wait has taken no records: the next poll returns them. Raises the errors of `poll`; RuntimeError
        when two tasks poll at once.
        """
        timeout = arguments.seconds(timeout)
        if self._poller is None:
            # A caller with an event loop has imported asyncio; importing grete does not.
            from grete.client._asyncio.poller import AsyncioPoller

            self._poller = AsyncioPoller(self._dispatcher, self.poll)
        return await self._poller.poll(timeout, max_messages)

    def acknowledge(self, x: Message | Messages, how: Acknowledgement = "accept") -> int:
        """Acknowledges records of the last poll: accepted; released, so that a member gets them again; or rejected, so
        that no member does. Returns how many were not acknowledged before. Raises ValueError for records of another
        partition.

        Brokers count deliveries, and reject a record that was released as often as `share.delivery.count.limit` (5) of
        the group allows.
        """
        return self._last_job().acknowledge(x, how)

    def delivery_count(self, message: Message) -> int:
        """Returns how often this record of the last poll was delivered, this delivery included; 0: it is
        acknowledged.
        """
        return self._last_job().deliveries(message) or 0

    def commit(self, timeout: float | None = 30.0) -> None:
        """Accepts the records of the last poll that are not acknowledged, and waits until the brokers have stored all
        acknowledgements.
        """
        client = self._require_open()
        if self._job is not None:
            self._job.acknowledge(self._messages, "accept")
        client.flush_acks(timeout)

    def membership(self) -> Membership:
        """Returns the present membership of this consumer in its group, without a request to a broker."""
        return Membership(**self._require_open().membership())

    def assignment(self) -> list[tuple[str, int]]:
        """Returns the partitions of which this consumer takes records; other members may take records of them, too."""
        return self._require_open().assignment()

    def statistics(self) -> dict[str, int]:
        """Returns counters of records: held (now), acquired (each delivery counts), redelivered, accepted, released,
        rejected, renewed (locks) and locks_lost (acknowledgements that came after the end of a lock).
        """
        return self._require_open().queue() or {}

    def close(self, timeout: float | None = 30.0) -> None:
        """Gives back what is not acknowledged, leaves the group and ends the network thread. Idempotent."""
        if self._closed:
            return
        self._closed = True
        exit_hooks.forget(self)
        done, self._job = self._job, None
        try:
            if done is not None:
                done.acknowledge(self._messages, "release")
                self._dispatcher.complete(done)
        finally:
            self._dispatcher.release_workers()
            self._client.close(timeout)
            self._log(self._dispatcher.drain_log_events())
            self._calls.close()

    # ---- the same for asyncio

    commit_async = awaitable(commit)
    close_async = awaitable(close)

    @property
    def described(self) -> str:
        """Name in lists of open clients."""
        return "grete.client.ShareConsumer"

    def close_at_exit(self) -> None:
        """Closes a consumer that is still open when the interpreter ends."""
        self.close(_EXIT_CLOSE_TIMEOUT)

    def __repr__(self) -> str:
        if self._closed:
            return "<grete.client.ShareConsumer, closed>"
        count = len(self._client.assignment())
        return f"<grete.client.ShareConsumer of {counted(count, 'partition')}>"

    def _require_open(self) -> _native.Client:
        if self._closed:
            raise ClosedError("this share consumer is closed: make a new one")
        return self._client

    def _last_job(self) -> _native.Job:
        self._require_open()
        if self._job is None:
            raise ValueError("the last poll has returned no records: acknowledge what a poll returns before the next")
        return self._job
