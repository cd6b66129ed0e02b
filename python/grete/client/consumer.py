"""The low-level consumer."""

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, SupportsInt

from grete import _core, config
from grete._core import Message, Messages
from grete.client.groups import Membership
from grete.errors import ClosedError, ConfigError, ForkedClientError
from grete.processing import atexit
from grete.processing.notices import log_notices

logger = logging.getLogger("grete.client")

Offset = int | Literal["earliest", "latest"] | datetime | None
"""Where to read from: an offset, an end of the partition, the first record from a time on, or None: as committed."""

# What the time-out of a closing at the interpreter's end is: nobody wants to wait then.
_AT_EXIT = 5.0


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
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Starts the network thread; connects when there is something to read. Raises ConfigError."""
        pairs = config.client_pairs(settings)
        _core.config_entries(pairs)
        self._dispatcher = _core.Dispatcher(interruptible=True)
        self._worker = _core.Worker("poll", self._dispatcher)
        self._client = _core.Client(pairs, self._dispatcher, [])
        self._job: _core.Job | None = None
        self._held: tuple[str, int, int] | None = None  # topic, partition and next offset of the job's messages
        self._closed = False
        atexit.close_before_exit(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(ForkedClientError):  # a child that leaves the block leaves the parent's client alone
            self.close()

    def subscribe(self, topics: Sequence[str]) -> None:
        """Joins the group (`group.id`) for these topics; the group's members share the partitions."""
        if isinstance(topics, str):
            raise ConfigError(f'subscribe takes a list of topics: subscribe(["{topics}"])', setting="topic")
        self._open().subscribe(list(topics))

    def assign(self, partitions: Iterable[tuple[str, int, Offset]]) -> None:
        """Reads exactly these partitions, without sharing: (topic, partition, offset). Replaces what was assigned."""
        self._open().assign(list(partitions))
        self._held = None

    def poll(self, timeout: float | None = 1.0, max_messages: int = 10_000) -> Messages:
        """The next records of one partition; empty when `timeout` seconds (None: for ever) are up. Ctrl-C works.

        What the last call returned counts as processed from here on, for `commit()` without arguments.
        Raises for what cannot heal: no Kafka at any address, authorisation refused, corrupt batch. All else is logged.
        """
        self._open()
        if max_messages < 1:
            raise ValueError(f"max_messages is at least 1, not {max_messages}")
        done, self._job, self._held = self._job, None, None
        try:
            self._job = self._dispatcher.poll(self._worker, done, timeout, max_messages)
        finally:
            log_notices(logger, self._dispatcher.take_notices())
        if self._job is None:
            self._dispatcher.check()
            return Messages.empty()
        messages = self._job.messages or Messages.empty()
        self._held = (messages.topic, messages.partition, messages.next_offset)
        return messages

    def commit(
        self,
        x: Messages | Message | Mapping[tuple[str, int], SupportsInt] | None = None,
        timeout: float | None = 30.0,
    ) -> None:
        """Commits and waits for the broker's answer.

        None: all that `poll` has returned. Messages, a message: up to and with it. A dict: the next offset to read by
        (topic, partition). Raises KafkaError when the broker refuses, as it does after a rebalance.
        """
        client = self._open()
        if x is None:
            done, self._job, self._held = self._job, None, None
            if done is not None:
                self._dispatcher.complete(done)
            client.commit(None, timeout)
        elif isinstance(x, Messages):
            if len(x):
                client.commit([(x.topic, x.partition, x.next_offset)], timeout)
        elif isinstance(x, Message):
            client.commit([(x.topic, x.partition, x.offset + 1)], timeout)
        elif isinstance(x, Mapping):
            client.commit([(topic, partition, int(offset)) for (topic, partition), offset in x.items()], timeout)
        else:
            raise TypeError(
                f"commit takes Messages, a Message, {{(topic, partition): next offset}} or None, not {type(x).__name__}"
            )

    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout: float | None = 30.0
    ) -> dict[tuple[str, int], int | None]:
        """The group's committed offsets (the next ones to read), as the coordinator has them."""
        wanted = list(partitions)
        return dict(zip(wanted, self._open().committed(wanted, timeout), strict=True))

    def offsets(
        self, partitions: Iterable[tuple[str, int, Offset]], timeout: float | None = 30.0
    ) -> dict[tuple[str, int], int]:
        """Asks the brokers which offsets "earliest", "latest" or a time stand for now."""
        wanted = list(partitions)
        found = self._open().list_offsets(wanted, timeout)
        return {(topic, partition): offset for (topic, partition, _), offset in zip(wanted, found, strict=True)}

    def partitions(self, topic: str, timeout: float | None = 30.0) -> list[int]:
        """Asks the brokers for a topic's partitions."""
        return self._open().partitions(topic, timeout)

    def position(self, topic: str, partition: int) -> int | None:
        """The offset that `poll` goes on from; None while it is not known."""
        client = self._open()
        # The lane moves on when the batch in our hands is given back, which the next poll does.
        if self._held is not None and self._held[:2] == (topic, partition):
            return self._held[2]
        return client.position(topic, partition)

    def watermarks(self, topic: str, partition: int) -> tuple[int, int] | None:
        """The first offset and the end of the partition as last fetched; None while they are not known."""
        return self._open().watermarks(topic, partition)

    def seek(self, topic: str, partition: int, offset: Offset) -> None:
        """Goes on elsewhere in an assigned partition."""
        self._open().seek(topic, partition, offset)
        self._held = None

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Fetches nothing more from these until `resume`."""
        self._open().pause(list(partitions))

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Ends a pause."""
        self._open().resume(list(partitions))

    def membership(self) -> Membership:
        """What this consumer is to its group now. Asks nobody."""
        return Membership(**self._open().membership())

    def assignment(self) -> list[tuple[str, int]]:
        """The partitions that this consumer reads now."""
        return self._open().assignment()

    def statistics(self) -> dict[str, int]:
        """Counters: bytes_received, fetches, queued_bytes, pinned_bytes, reconnects."""
        return self._open().statistics()

    def close(self, timeout: float | None = 30.0) -> None:
        """Leaves the group, ends the network thread. With `enable.auto.commit`, commits first. Idempotent."""
        if self._closed:
            return
        self._closed = True
        atexit.forget(self)
        done, self._job = self._job, None
        try:
            if done is not None:
                self._dispatcher.complete(done)
        finally:
            self._dispatcher.release_workers()
            self._client.close(timeout)
            log_notices(logger, self._dispatcher.take_notices())

    @property
    def described(self) -> str:
        """For those who ask what is still open."""
        return "grete.client.Consumer"

    def close_at_exit(self) -> None:
        """For a consumer that nobody closed."""
        self.close(_AT_EXIT)

    def __repr__(self) -> str:
        if self._closed:
            return "<grete.client.Consumer, closed>"
        return f"<grete.client.Consumer of {len(self._client.assignment())} partitions>"

    def _open(self) -> _core.Client:
        if self._closed:
            raise ClosedError("this consumer is closed: make a new one")
        return self._client
