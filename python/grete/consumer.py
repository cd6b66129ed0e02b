"""Consumer: the base class of users' handlers."""

import math
from datetime import datetime
from typing import TYPE_CHECKING, Any

from grete import _units
from grete._native import Message, Messages
from grete.errors import GreteError, TransactionStateError

if TYPE_CHECKING:
    import asyncio
    import threading
    from collections.abc import Awaitable, Callable

    from grete._native import Job
    from grete._processing.instances.context import InstanceContext
    from grete._processing.instances.job_producer import JobProducer

# Longest wait of a synchronous mark for the group's coordinator, in seconds.
_COMMIT_TIMEOUT = 60.0


class Consumer:
    """Processes the records of one partition. One instance lives for as long as its partition is assigned.

    With `concurrency="key"` or "unordered" a partition has many instances: each gets some of the keys, or some of the
    records, independently of the others.

    Define `consume`; the other hooks are optional. Each may be `def` or, on a route whose `consume` is `async def`,
    `async def`. Only one hook of an instance runs at a time, but not always in the same thread (the hooks of an
    asynchronous consumer all run on the event loop). An instance is dropped after `revoked` or `shutdown`: end in these
    hooks everything that the instance has started.

    Attributes:
        messages: records for `consume`; empty outside of it.
        topic: the instance's topic.
        partition: the instance's partition.
        attempt: counts the runs over the first unmarked record, from 1.
        lost: in `revoked`: whether another member has the partition already, so that commits are no longer possible.
    """

    messages: Messages
    topic: str
    partition: int
    attempt: int = 0
    lost: bool = False
    _job: "Job | None" = None
    _context: "InstanceContext | None" = None

    # Hooks

    def initialize(self) -> "Awaitable[None] | None":
        """Runs once, before the first other hook. If it raises, it is tried again on a new instance after a wait.

        A failure does not count as an attempt of any record: no record goes to the dead letter topic because of it.
        """
        return None

    def consume(self) -> "Awaitable[None] | None":
        """Processes `self.messages`. Returning marks all as processed; raising leaves the unmarked ones for a retry."""
        raise NotImplementedError(f"{type(self).__qualname__} has no consume method")

    def revoked(self) -> "Awaitable[None] | None":
        """Runs once when the partition moves to another member; marked records are committed afterwards.

        With `self.lost` another member has the partition already, and nothing is committed any more.
        """
        return None

    def shutdown(self) -> "Awaitable[None] | None":
        """Runs once when the process stops; marked records are committed afterwards."""
        return None

    def eof(self) -> "Awaitable[None] | None":
        """Runs each time that all records up to the end of the partition have been processed."""
        return None

    def tick(self) -> "Awaitable[None] | None":
        """Runs every `tick` of the route (`tick="5s"`), with or without records, never beside another hook."""
        return None

    # Methods for hooks

    @property
    def producer(self) -> "JobProducer":
        """Producer of the process, made on first use with the App's Kafka settings and shared by all consumers.

        `produce` returns at once. A job is complete, and its offsets are committed, when all records that it has
        produced are written. A record that cannot be written fails the job: like any failure, the job is retried, and
        goes to the dead letter topic. `self.producer.fire_and_forget` is the same producer without this dependency. See
        `JobProducer`.
        """
        return self._require_context("producer").job_producer(self)

    def mark(self, x: Message | Messages, through: bool = False, sync: bool = False) -> int:
        """Marks a message, or messages, of this partition as processed. Returns how many were not marked before.

        With `through`, all records before it count as processed, too (with `concurrency="key"` or "unordered": all
        before it in the same call, because other records belong to other instances). The contiguous prefix of marks is
        committed in the background (`auto.commit.interval.ms`), on revocation and on a stop. With `sync` the call
        returns when the group's coordinator has stored the commit.

        With `offsets="manual"` this also works after `consume` has returned, from any thread. Raises RevokedError when
        the partition no longer belongs to this instance: another member processes these records again.
        """
        job = self._job
        if job is None:
            raise GreteError(
                "mark works inside of consume, where there are records to mark; "
                'between two calls of consume only with offsets="manual", and only after the first one'
            )
        if sync and job.exactly_once:
            raise TransactionStateError(
                "mark(..., sync=True) would wait for the transaction that commits this job, which begins when the job "
                "has ended: mark without sync=True"
            )
        count = job.mark(x, through)
        if sync:
            host = self._require_context("mark(sync=True)")
            host.refuse_on_loop("mark(..., sync=True)", "await asyncio.to_thread(self.mark, message, sync=True)")
            if job.pending_outputs:
                job.await_outputs(host.producer(), _COMMIT_TIMEOUT)
            if (error := job.delivery_error()) is not None:
                raise error
            host.client.commit_marks(job, _COMMIT_TIMEOUT)
        return count

    def seek(self, to: int | str | datetime) -> None:
        """Continues from another offset: a number, "earliest", "latest", or the first record from a time on.

        The running job ends with this: records that it leaves unmarked are not presented again, and the record at `to`
        comes next. Earlier marks remain until the first record from `to` on is marked.
        """
        self._require_context("seek").client.seek(self.topic, self.partition, to)  # type: ignore[arg-type]

    def pause(self, seconds: float | str | None = None) -> None:
        """Pauses this partition for `seconds`, or a text like "30s", or until `resume`. The running job goes on.

        The partition stays assigned, so there is no rebalance. `tick`, `revoked` and `shutdown` run as usual.
        """
        try:
            span = None if seconds is None or seconds == math.inf else _units.seconds(seconds)
        except ValueError as error:
            raise ValueError(f"pause: {error}; None is until resume()") from None
        host = self._require_context("pause")
        host.dispatcher.pause(host.job, span)

    def resume(self) -> None:
        """Ends a `pause`, from any thread; does nothing without one."""
        host = self._require_context("resume")
        host.dispatcher.resume(host.job)

    def background(
        self, fn: "Callable[..., Any]", *args: Any, name: str | None = None
    ) -> "threading.Thread | asyncio.Task[Any]":
        """Runs `fn(*args)` beside the hooks, in a thread "grete-background-NAME", until the partition is revoked.

        ```
        def initialize(self):
            self.background(self.flush)

        def flush(self):
            while not self.stopping.wait(1.0):
                ...
        ```

        Before `revoked` or `shutdown` runs, `self.stopping` is set and the thread is joined, so that these hooks find
        its work done. A thread that does not end in time (30 s, `shutdown_timeout` on a stop) is left behind as a
        daemon thread, and logged. An exception of `fn` is only logged.

        In an asynchronous consumer a coroutine function becomes a task on the event loop. The task is cancelled and
        awaited where a thread would be signalled and joined.
        """
        return self._require_context("background").background.start(fn, args, name)

    @property
    def leaving(self) -> bool:
        """Whether the partition is being revoked or the App is stopping, while `consume` runs.

        Handlers may ignore this. But the revocation and the stop wait for `consume`, and give up when it takes too
        long. A long batch may stop between two records: mark the processed records and raise `RetryLater(0)`, and the
        next owner gets the rest. (With `offsets="manual"`, where returning marks nothing, return.) Never with
        `offsets="at_most_once"`: these records are committed already, and no other member gets them.
        """
        return self._job is not None and self._job.leaving

    @property
    def stopping(self) -> "threading.Event":
        """Event that is set when the instance is about to end. Background functions wait for it instead of sleeping."""
        return self._require_context("stopping").background.stopping

    def _require_context(self, what: str) -> "InstanceContext":
        if self._context is None:
            raise GreteError(f"{what} works in a running App, from initialize on: no App runs this consumer")
        return self._context
