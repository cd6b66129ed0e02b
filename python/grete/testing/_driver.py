"""Driver of one run: steps the dispatcher in the calling thread, on a virtual clock."""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from grete import _native
from grete._native import Job
from grete._processing.engine.async_job_runner import AsyncJobRunner
from grete._processing.engine.failures import FailedJob
from grete._processing.engine.job_parts import JobParts
from grete._processing.engine.run_control import JobThread
from grete._suggest import did_you_mean
from grete.client import Producer
from grete.errors import GreteError
from grete.payloads import Decoder, decoder_of
from grete.testing._offline import FailDelivery, MemoryTopics, OfflineClient
from grete.testing._records import Encode, Record, WireRecord, encode_records
from grete.testing._result import Failure, Run, sort_written
from grete.testing._target import Target

End: TypeAlias = Literal["shutdown", "revoked", "lost"]
ENDS = ("shutdown", "revoked", "lost")

# Jobs after which a run counts as endless.
_MAX_JOBS = 100_000


class Control:
    """Control of the run for the parts that run jobs."""

    def __init__(self, dispatcher: _native.Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Stops handing out records."""
        self.error = self.error or error
        self._dispatcher.quiet()

    def on_exit(self, thread: JobThread) -> None:
        """Does nothing: no thread runs jobs."""

    @property
    def stopping(self) -> bool:
        """Whether records are handed out no more."""
        return self.error is not None


class Driver:
    """Runs one route on the records of one partition, once. `run` is for the handlers of threads, too: it never
    suspends then.
    """

    def __init__(
        self,
        target: Target,
        records: Sequence[Record],
        *,
        topic: str,
        partition: int,
        offset: int,
        encode: Encode | None,
        encode_key: Encode | None,
        topics: Mapping[str, int],
        fail_delivery: FailDelivery,
        end: End,
        idle: float,
        time_limit: float,
        on_host_loop: bool,
    ) -> None:
        """`records` are placed, from `offset` on. `encode_key`: for keys that are no bytes and no text. See `consume`
        for the others.
        """
        self._target = target
        self._route = route = target.route
        self._end = end
        self._idle = idle
        self._time_limit = time_limit
        monitor = target.app.monitor
        self._stepper = _native._TestingStepper(  # noqa: SLF001
            events=monitor.job_events, event_loop=route.is_async
        )
        self._dispatcher = dispatcher = self._stepper.dispatcher
        for name, decoder in (route.decoders() or {}).items():
            dispatcher.set_decoder(route.id, name, decoder)
        self._records = encode_records(records, self._stepper.wall_clock_ms, encode, encode_key)
        self._first = offset
        self._run = Run(
            topic=topic,
            partition=partition,
            offsets=[record[0] for record in self._records],
            publish=route.publish,
        )
        self._lane = _native._TestingLane(dispatcher, target.native, topic, partition, offset)  # noqa: SLF001
        self._control = Control(dispatcher)
        self._topics = MemoryTopics(target.config.kafka_pairs, topics, fail_delivery, monitor)
        self._parts = JobParts(
            [route],
            dispatcher,
            {route.id: OfflineClient(self._seek)},
            self._producer,
            {route.id: target.group},
            self._control,
            monitor,
            on_failed=self._on_failed,
        )
        self._hooks = self._parts.new_hook_runner()
        self._async_runner = (
            AsyncJobRunner(dispatcher, self._hooks, self._parts.failures, self._control, "test", on_host_loop)
            if route.is_async
            else None
        )
        self._jobs = 0
        # Offsets of jobs in flight, by `Job.id`.
        self._offsets: dict[int, list[int]] = {}
        # Units that wait for a retry, by slot, and whether all their attempts were in vain.
        self._exhausted: dict[int, bool] = {}
        self._marked: set[int] = set()

    @property
    def is_async(self) -> bool:
        """Whether the handler needs an event loop."""
        return self._async_runner is not None

    @property
    def loop_kind(self) -> str:
        """Setting `loop` of the App."""
        kind: str = self._target.config["loop"]
        return kind

    async def run(self) -> Run:
        """Processes the records, ends the assignment of the partition, and returns the result.

        Raises errors that are no handler's, and KeyboardInterrupt.
        """
        app = self._target.app
        before, app._offline_producer = app._offline_producer, self._producer  # noqa: SLF001
        try:
            await self._run_to_end()
            return self._run
        finally:
            app._offline_producer = before  # noqa: SLF001
            # Reference cycles with instances and failures would keep descriptors until the next garbage collection.
            vars(self).clear()

    async def _run_to_end(self) -> None:
        # The run is no local variable: this frame is part of the tracebacks of its failures, a reference cycle.
        try:
            self._push(self._records)
            await self._process()
            self._run.waited = self._stepper.time
            await self._pass_time(self._run.waited + self._idle)
            self._sample_marks()
            if self._route.style == "class":
                self._run.consumers = [instance.consumer for instance in self._parts.instances.all()]
            await self._finish()
        finally:
            self._topics.close()
        error = self._control.error
        if error is not None and (isinstance(error, KeyboardInterrupt) or error not in self._run.errors):
            raise error
        sort_written(self._topics.take(), self._route.dead_letter, self._run, self._value_decoders())
        self._set_marks()
        self._check_refusals(self._run)

    def _check_refusals(self, run: Run) -> None:
        """Raises GreteError for a topic of `fail_delivery` that got no record: it may be misspelt."""
        written = Counter({topic: len(records) for topic, records in run.produced.items()})
        dead_letter, publish = self._route.dead_letter, self._route.publish
        if dead_letter is not None:
            written[dead_letter] += len(run.dead)
        for name in self._topics.unused(written):
            known = [*written, *self._target.app.topics, *filter(None, (publish, dead_letter))]
            first = run.failures[0].error if run.failures else None
            raise GreteError(
                f'fail_delivery names topic "{name}", and nothing was produced to it{did_you_mean(name, known)}'
                + ("" if first is None else f"; the first failure of the run is {first!r}")
            ) from first

    def _value_decoders(self) -> dict[str, Decoder | None]:
        """Returns the decoders of topics that handlers write to, as far as they are declared."""
        found: dict[str, Decoder | None] = {
            name: decoder_of(topic.value, name)
            for name, topic in self._target.app.topics.items()
            if topic.value is not None
        }
        result_topic = self._route.result_topic
        if result_topic is not None:
            found[result_topic.topic] = result_topic.decoder()
        return found

    async def _process(self) -> None:
        """Runs jobs until no more records come, in virtual time."""
        while True:
            await self._run_ready()
            self._topics.poll()
            due, backoffs, others = self._stepper.timers()
            idle = not backoffs and not others
            stuck = not others and len(self._exhausted) == backoffs and all(self._exhausted.values())
            if idle or stuck or self._control.stopping or due is None or due > self._time_limit:
                return
            self._stepper.advance(due)

    async def _pass_time(self, until: float) -> None:
        """Runs ticks, and what else becomes due."""
        while not self._control.stopping and until > self._stepper.time:
            due, _, _ = self._stepper.timers()
            self._stepper.advance(until if due is None else min(due, until))
            await self._run_ready()

    async def _finish(self) -> None:
        """Ends the assignment, and runs the last hooks."""
        if self._end == "shutdown":
            self._dispatcher.stop()
        else:
            self._lane.revoke(lost=self._end == "lost")
        await self._run_ready()
        self._dispatcher.release_workers()
        await self._parts.providers.close_async()
        self._parts.providers.close()

    async def _run_ready(self) -> None:
        """Runs the jobs that are ready, and those that become ready by that."""
        if self._async_runner is not None:
            await self._run_tasks(self._async_runner)
            return
        take, run_job, done = self._stepper.take, self._hooks.run_in_worker, None
        while (job := take(done)) is not None:
            self._on_taken(job)
            try:
                run_job(job)
            except BaseException as error:
                self._parts.failures.fail(job, error)
                done = None
            else:
                done = job

    async def _run_tasks(self, runner: AsyncJobRunner) -> None:
        context = contextvars.copy_context()
        tasks: set[asyncio.Task[None]] = set()
        try:
            while True:
                while (job := self._stepper.take()) is not None:
                    self._on_taken(job)
                    tasks.add(runner.start_job(job, context))
                if not tasks:
                    return
                _, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def _on_taken(self, job: Job) -> None:
        self._jobs += 1
        if self._jobs > _MAX_JOBS:
            raise GreteError(
                f"the run did not end within {_MAX_JOBS} jobs: does a handler seek, or retry, without an end? "
                "time_limit= ends a run earlier"
            )
        self._exhausted.pop(job.slot, None)
        if job.kind == "consume" and not job.returned and job.messages is not None:
            attempts = self._run.attempts
            self._offsets[job.id] = offsets = job.messages.offsets.tolist()
            for offset in offsets:
                attempts[offset] = attempts.get(offset, 0) + 1

    def _on_failed(self, failed: FailedJob) -> None:
        job, action, decision = failed.job, failed.action, failed.decision
        if job.kind == "consume":
            self._uncount(self._offsets.pop(job.id, []), failed)
        outcome = "fatal" if action.kind == "fatal" else None if decision is None else decision.kind
        wait = 0.0 if decision is None else decision.wait
        self._run.failures.append(Failure(action.error, failed.hook, job.attempt, action.offset, outcome, wait))
        if decision is not None and decision.kind in ("retry", "later"):
            self._exhausted[job.slot] = self._is_exhausted(failed, decision)

    def _uncount(self, offsets: list[int], failed: FailedJob) -> None:
        """Takes back the count of records that the failed run has not reached."""
        stopped_at = -1 if failed.hook in ("initialize", "commit") else failed.stopped_at
        if stopped_at is None:
            return
        attempts = self._run.attempts
        for offset in offsets:
            if offset > stopped_at:
                attempts[offset] -= 1
                if not attempts[offset]:
                    del attempts[offset]

    def _is_exhausted(self, failed: FailedJob, decision: _native.Decision) -> bool:
        """Returns whether no later run can change the outcome: the attempts are used up, and there is no dead letter
        topic, or that topic refuses every record.
        """
        topic, limit = self._route.dead_letter, self._route.retry.attempts
        if failed.hook == "dead_letter":
            return topic in self._topics.refusals and self._topics.refusals[topic] is None
        return topic is None and decision.kind == "retry" and limit is not None and decision.attempt > limit

    def _producer(self) -> Producer:
        producer = self._topics.producer()
        self._dispatcher.set_producer(producer)
        return producer

    def _push(self, records: Sequence[WireRecord]) -> None:
        if records:
            self._lane.push(_native._testing_encode(records))  # noqa: SLF001

    def _seek(self, to: int | str | datetime) -> None:
        self._sample_marks()
        end = self._records[-1][0] + 1 if self._records else self._first
        if to == "earliest":
            position = self._first
        elif to == "latest":
            position = end
        elif isinstance(to, datetime):
            since = to.timestamp() * 1000
            position = next((record[0] for record in self._records if record[1] >= since), end)
        else:
            position = int(to)
        self._lane.seek(position)
        self._push([record for record in self._records if record[0] >= position])

    def _sample_marks(self) -> None:
        """Adds the marks up to now: a seek, and the end of the assignment, forget them."""
        self._marked.update(self._lane.done(self._run.offsets))

    def _set_marks(self) -> None:
        run = self._run
        if self._end == "shutdown":
            self._sample_marks()
        committable = None if self._end == "lost" else self._lane.committable()
        if self._end == "revoked" and committable is not None:
            self._marked.update(offset for offset in run.offsets if offset < committable)
        dead = {letter.offset for letter in run.dead}
        run.marked = [offset for offset in run.offsets if offset in self._marked & run.attempts.keys() - dead]
        if committable is not None and (run.marked or committable > self._first):
            run.committed = committable
