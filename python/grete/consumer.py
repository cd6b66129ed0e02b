"""The class that users derive from."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from grete._core import Message, Messages
from grete.errors import GreteError

if TYPE_CHECKING:
    import asyncio
    import threading
    from collections.abc import Awaitable, Callable

    from grete._core import Job
    from grete.client import Producer
    from grete.processing.host import Host

# How long a synchronous mark waits for the group's coordinator, in seconds.
_COMMIT_TIMEOUT = 60.0


class Consumer:
    """Processes the records of one partition. One instance lives for as long as its partition is assigned.

    With `concurrency="key"` or "unordered" a partition has many instances: each has some of the keys, or some of the
    records, and none of them knows of the others.

    Define `consume`; the other hooks are optional. Each may be `def` or, on a route whose `consume` is `async def`,
    `async def`. Only one hook of an instance runs at a time, but not always in the same thread (those of an
    asynchronous consumer all run on the event loop). An instance is gone after `revoked` or `shutdown`: keep nothing
    alive in it that these do not end.

    Attributes:
        messages: what `consume` is to process; empty outside of it.
        topic: the instance's topic.
        partition: the instance's partition.
        attempt: counts the runs over the first unmarked record, from 1.
        lost: in `revoked`: whether the partition is already somebody else's, so that nothing can be committed any more.
    """

    messages: Messages
    topic: str
    partition: int
    attempt: int = 0
    lost: bool = False
    _job: "Job | None" = None
    _host: "Host | None" = None

    # Hooks

    def initialize(self) -> "Awaitable[None] | None":
        """Runs once, before the first other hook. If it raises, it is tried again on a new instance after a wait.

        That counts as nobody's attempt: no record goes to the dead letter topic because of it.
        """
        return None

    def consume(self) -> "Awaitable[None] | None":
        """Processes `self.messages`. Returning marks all as processed; raising leaves the unmarked for a retry."""
        raise NotImplementedError(f"{type(self).__qualname__} has no consume method")

    def revoked(self) -> "Awaitable[None] | None":
        """Runs once when the partition goes to another member; what is marked is committed afterwards.

        With `self.lost` it has gone already, and nothing is committed any more.
        """
        return None

    def shutdown(self) -> "Awaitable[None] | None":
        """Runs once when the process stops; what is marked is committed afterwards."""
        return None

    def eof(self) -> "Awaitable[None] | None":
        """Runs each time that the end of the partition is reached: all records that there are have been processed."""
        return None

    def tick(self) -> "Awaitable[None] | None":
        """Runs every `tick` of the route (`tick="5s"`), with or without records, never beside another hook."""
        return None

    # What hooks may call

    @property
    def producer(self) -> "Producer":
        """The process's producer, made on first use with the App's Kafka settings and shared by all consumers.

        `produce` returns at once, so a record that a handler produced may still be on its way when the message behind
        it is committed: `produce_sync`, or `wait` on the delivery, where that matters; `await self.producer.send(...)`
        in an asynchronous consumer. When the App stops, what was produced is delivered before the last commit; what
        cannot be is logged, and the App's run fails.
        """
        return self._hosted("producer").producer()

    def mark(self, x: Message | Messages, through: bool = False, sync: bool = False) -> int:
        """Declares a message, or messages, of this partition processed. Returns how many were not marked before.

        With `through`, all records before it count as processed, too (with `concurrency="key"` or "unordered": all
        before it in the same call, since those of others are not this instance's). Committed is the contiguous prefix
        of marks: in the background (`auto.commit.interval.ms`), on revocation and on a stop; with `sync` the call
        returns when the group's coordinator has stored it.

        With `offsets="manual"` this also works after `consume` has returned, from any thread. Raises RevokedError when
        the partition is not this instance's any more: somebody else processes these records again.
        """
        job = self._job
        if job is None:
            raise GreteError(
                "mark works inside of consume, where there are records to mark; "
                'between two calls of consume only with offsets="manual", and only after the first one'
            )
        count = job.mark(x, through)
        if sync:
            from grete.processing.host import refuse_on_loop

            host = self._hosted("mark(sync=True)")
            refuse_on_loop("mark(..., sync=True)", "await asyncio.to_thread(self.mark, message, sync=True)")
            host.client.commit_marks(job, _COMMIT_TIMEOUT)
        return count

    def seek(self, to: int | str | datetime) -> None:
        """Goes on from another offset: a number, "earliest", "latest", or the first record from a time on.

        The job that runs is over with that: whatever it leaves unmarked is not presented again, and what comes next is
        the record at `to`. What was marked before stays marked until the first record from there on is.
        """
        self._hosted("seek").client.seek(self.topic, self.partition, to)  # type: ignore[arg-type]

    def pause(self, seconds: float | None = None) -> None:
        """No further records of this partition for so many seconds, or until `resume`. The running job goes on.

        The partition stays assigned: no rebalance comes of it. `tick`, `revoked` and `shutdown` run as ever.
        """
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"a pause is a number of seconds from 0 up, or None for until resume(), not {seconds!r}")
        host = self._hosted("pause")
        host.dispatcher.pause(host.job, seconds)

    def resume(self) -> None:
        """Ends a `pause`, from any thread; does nothing without one."""
        host = self._hosted("resume")
        host.dispatcher.resume(host.job)

    def background(
        self, fn: "Callable[..., Any]", *args: Any, name: str | None = None
    ) -> "threading.Thread | asyncio.Task[Any]":
        """Runs `fn(*args)` beside the hooks, in a thread "grete-background-NAME", until the partition goes.

        ```
        def initialize(self):
            self.background(self.flush)

        def flush(self):
            while not self.stopping.wait(1.0):
                ...
        ```

        Before `revoked` or `shutdown` runs, `self.stopping` is set and the thread is joined, so that these hooks find
        its work done. One that does not end within the time there is (30 s, `shutdown_timeout` on a stop) is left
        behind as a daemon thread, and logged. What `fn` raises is logged; nothing else comes of it.

        In an asynchronous consumer a coroutine function becomes a task on the event loop; it is cancelled and awaited
        where a thread would be told and joined.
        """
        return self._hosted("background").background.start(fn, args, name)

    @property
    def leaving(self) -> bool:
        """Whether the partition is about to go, or the App to stop, while `consume` runs.

        Nothing has to look at it; but both wait for `consume`, and give up when it takes too long. A long batch may
        stop between two records: mark what is done and raise `RetryLater(0)`, and the rest is the next owner's. (With
        `offsets="manual"`, where returning marks nothing, return.) Never with `offsets="at_most_once"`: these records
        are committed already, and come to nobody else.
        """
        return self._job is not None and self._job.leaving

    @property
    def stopping(self) -> "threading.Event":
        """Set when the instance is about to go. What runs in the background waits for it instead of sleeping."""
        return self._hosted("stopping").background.stopping

    def _hosted(self, what: str) -> "Host":
        if self._host is None:
            raise GreteError(f"{what} works in a running App, from initialize on: nobody runs this consumer")
        return self._host
