"""Calls the hooks of consumer instances, in worker threads and on the event loop."""

import contextlib
import inspect
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from types import CoroutineType
from typing import Any, TypeVar

from grete._native import Job, Messages
from grete._processing.engine.dead_letter_writer import DeadLetters
from grete._processing.events.job_events import JobEvents
from grete._processing.instances.context import GroupClient
from grete._processing.instances.registry import NO_MESSAGES, Instance, InstanceRegistry, create
from grete._processing.instances.teardown import InstanceTeardown
from grete._processing.instances.thread_leaks import runs_hooks
from grete._routing.provider_scopes import ProcessProviders
from grete._routing.routes import Route
from grete.errors import GreteError, RevokedError
from grete.instrumentation.clock import monotonic
from grete.instrumentation.monitor import Monitor
from grete.producer import EXACTLY_ONCE_PRODUCER

T = TypeVar("T")

# End the process gracefully, because a retry would only repeat them.
FATAL = (SystemExit, KeyboardInterrupt, MemoryError)

# Timeout in seconds of the commit before the records of an at-most-once route.
_COMMIT_TIMEOUT = 30.0

# Calls a function that blocks: inline in a worker thread, in an executor thread for the event loop.
RunBlocking = Callable[..., Awaitable[Any]]


_of_consume = runs_hooks(lambda names: (names["instance"].context, "consume"))


class AlreadyFailed(Exception):  # noqa: N818
    """The job has failed before, and its error was kept until its produced records were settled."""


class NotStarted(Exception):  # noqa: N818
    """No handler has seen the job's records; the reason is the `__cause__`. Retried after `wait` seconds.

    `hook`: what failed, "initialize" or the "commit" before at-most-once. `failures`: consecutive ones, from 1.
    """

    def __init__(self, hook: str, wait: float, failures: int = 1) -> None:
        super().__init__()
        self.hook = hook
        self.wait = wait
        self.failures = failures


async def run_inline(function: Callable[..., Any], *args: object) -> Any:
    """Implements `RunBlocking` for worker threads."""
    return function(*args)


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine without an event loop, in a thread where none of its awaits may suspend."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    coroutine.close()
    raise GreteError(
        "a hook is `async def` and awaits, but its consumer's consume is a plain def, which runs in a thread without "
        "an event loop: make consume `async def`, too, or the hook a plain def"
    )


class HookRunner:
    """Runs jobs: finds or creates the instance, and calls the hook. One for worker threads, one for the event loop."""

    def __init__(
        self,
        routes: Mapping[int, Route],
        instances: InstanceRegistry,
        teardown: InstanceTeardown,
        dead_letters: DeadLetters,
        clients: Mapping[int, GroupClient],
        groups: Mapping[int, str],
        run_blocking: RunBlocking = run_inline,
        monitor: Monitor | None = None,
        providers: ProcessProviders | None = None,
    ) -> None:
        """`routes`, `clients` and `groups` (the consumer groups' names) go by `Route.id`."""
        self._providers = providers
        self._routes = routes
        self._instances = instances
        self._teardown = teardown
        self._dead_letters = dead_letters
        self._clients = clients
        self._run_blocking = run_blocking
        self._job_events = JobEvents(monitor or Monitor(), routes, groups)
        self._finished_fields = self._job_events.finished_fields
        self._unsharded = {route.id for route in routes.values() if route.concurrency == "partition"}
        # Consecutive failures to hand out a unit's records, by lane and slot.
        self._failure_counts: dict[tuple[int, int], int] = {}

    async def end_async_providers(self) -> None:
        """Ends the asynchronous providers of the process, on their event loop."""
        if self._providers is not None:
            await self._providers.close_async()

    def run_in_worker(self, job: Job) -> None:
        """Runs a job like `run`, in a worker thread. Jobs with records avoid coroutines (a sixth of an empty job)."""
        plain = job.unobserved
        if not plain and not job.consumes:
            run_sync(self.run(job))
            return
        instance = self._instances.get(job) or run_sync(self._create_instance(job))
        if instance.commits_before:
            self._commit_first(job)
        messages = job.messages
        if messages is None:
            raise AssertionError(f"{job!r} brought no messages")
        consumer = instance.consumer
        consumer.attempt = job.attempt
        consumer.messages, consumer._job = messages, job  # noqa: SLF001
        try:
            if plain:
                _consume(instance)
            else:
                self._consume_with_events(instance, job, messages)
        finally:
            # The instance outlives the job, but must not keep the batch's memory.
            consumer.messages = NO_MESSAGES
            if not instance.keeps_job_after:
                consumer._job = None  # noqa: SLF001

    async def run(self, job: Job) -> None:
        """Runs the hook of the job; raises what the hook raises."""
        plain = job.unobserved
        if not plain and job.returned:
            raise job.delivery_error() or AlreadyFailed
        if plain or (kind := job.kind) == "consume":
            await self._consume(job, plain)
        elif kind == "dead_letter":
            await self._run_blocking(self._dead_letters.send, self._routes[job.route], job)
        else:
            with self._job_events.hook_scope(job):
                await (self._tear_down(job) if kind in ("revoked", "shutdown") else self._run_lane_hook(job))

    def ready_instance(self, job: Job) -> Instance | None:
        """Returns the instance with which `consume_plain`, or `await_with_events` for a job with listeners, is all that
        `run` would do for this job; None: `run` does more.
        """
        if not job.consumes:
            return None
        instance = self._instances.get(job)
        return None if instance is None or instance.commits_before else instance

    async def _consume(self, job: Job, plain: bool) -> None:
        """Runs `consume` like `run_in_worker`, but may await it, and emits its events."""
        instance = self._instances.get(job)
        if instance is None:
            instance = await self._create_instance(job)
        if instance.commits_before:
            await self._run_blocking(self._commit_first, job)
        if plain:
            await consume_plain(instance, job)
        else:
            await self.await_with_events(instance, job)

    @_of_consume
    def _consume_with_events(self, instance: Instance, job: Job, messages: Messages) -> None:
        """Consumes in a worker thread, and emits the events of the job and its records."""
        # Each call that is written out here (start_job, finish_job, _call_consume) is a tenth of what a listener costs.
        events = self._job_events
        if events.started:
            events.start_job(job, messages)
        begin = monotonic()
        try:
            # Not `contextlib.nullcontext`, which costs a quarter of all that a listener costs.
            if instance.context.exactly_once:
                with as_app_producer(instance):
                    result = _call_consume(instance)
            elif instance.consume_with_events is None:
                result = instance.consumer.consume()
            else:
                result = _call_consume(instance)
            if result is not None:
                _write_result(instance, result)
        except BaseException as error:
            events.finish_job(job, messages, begin, error)
            raise
        if events.finished:
            events.finished.emit_timed(self._finished_fields, begin, job, messages, None)

    @_of_consume
    async def await_with_events(self, instance: Instance, job: Job) -> None:
        """Does what `consume_plain` does, and emits the events of the job and its records."""
        messages = job.messages
        if messages is None:
            raise AssertionError(f"{job!r} brought no messages")
        self._job_events.start_job(job, messages)
        begin = monotonic()
        consumer = instance.consumer
        consumer.attempt = job.attempt
        consumer.messages, consumer._job = messages, job  # noqa: SLF001
        try:
            if instance.context.exactly_once:
                with as_app_producer(instance):
                    result = _call_consume(instance)
                    if result is not None and inspect.isawaitable(result):
                        result = await result
            else:
                result = _call_consume(instance)
                if result is not None and (type(result) is CoroutineType or inspect.isawaitable(result)):
                    result = await result
            if result is not None:
                await instance.write_result_async(result)
        except BaseException as error:
            self._job_events.finish_job(job, messages, begin, error)
            raise
        else:
            self._job_events.finish_job(job, messages, begin, None)
        finally:
            consumer.messages = NO_MESSAGES
            if not instance.keeps_job_after:
                consumer._job = None  # noqa: SLF001

    async def _create_instance(self, job: Job) -> Instance:
        route = self._routes[job.route]
        host = self._instances.new_context(route, job)
        try:
            with self._job_events.emit_after(self._job_events.initialized, job):
                instance = create(route, job, host)
                instance.consumer._job = job  # noqa: SLF001
                await _call(instance, "initialize")
        except BaseException as error:
            await self._teardown.stop_background([host], self._run_blocking)
            self._teardown.check_leaks([host])
            if not isinstance(error, Exception) or isinstance(error, FATAL):
                raise
            raise self._not_started(job, "initialize") from error
        self._failure_counts.pop((job.lane, job.slot), None)
        instance.consumer._job = None  # noqa: SLF001
        self._instances.add(job, instance)
        return instance

    def _commit_first(self, job: Job) -> None:
        """Commits before an at-most-once job: no handler sees a record before the offset after it is stored.

        The marks stay if the commit fails. For a restart, these records then count as handed out.
        """
        try:
            job.mark_all()
            self._clients[job.route].commit_marks(job, _COMMIT_TIMEOUT)
        except RevokedError:
            raise
        except Exception as error:
            raise self._not_started(job, "commit") from error
        self._failure_counts.pop((job.lane, job.slot), None)

    def _not_started(self, job: Job, hook: str) -> NotStarted:
        unit = job.lane, job.slot
        failures = self._failure_counts[unit] = self._failure_counts.get(unit, 0) + 1
        return NotStarted(hook, _backoff(self._routes[job.route], failures), failures)

    async def _tear_down(self, job: Job) -> None:
        """Runs the last job of a lane: background work ends, then the hook runs, then the instances are dropped."""
        instances = self._instances.pop(job)
        self._dead_letters.forget_lane(job.lane)
        for unit in [unit for unit in list(self._failure_counts) if unit[0] == job.lane]:
            self._failure_counts.pop(unit, None)
        hosts = [instance.context for instance in instances]
        try:
            await self._teardown.stop_background(hosts, self._run_blocking)
            for instance in instances:
                instance.consumer.lost = job.lost
            await self._call_each(job, instances)
        finally:
            self._teardown.check_leaks(hosts)

    async def _run_lane_hook(self, job: Job) -> None:
        instances = self._instances.for_lane(job)
        if not instances and job.route in self._unsharded:
            instances = [await self._create_instance(job)]
        await self._call_each(job, instances)

    async def _call_each(self, job: Job, instances: Iterable[Instance]) -> None:
        """Calls the hook of all instances, even after one of them has failed."""
        errors: list[Exception] = []
        for instance in instances:
            consumer = instance.consumer
            before, consumer._job = consumer._job, job  # noqa: SLF001
            try:
                await _call(instance, job.kind)
            except FATAL:
                raise
            except Exception as error:
                errors.append(error)
            finally:
                consumer._job = before  # noqa: SLF001
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup(f"{job.kind} failed in {len(errors)} instances", errors)


def _backoff(route: Route, failures: int) -> float:
    first, max_wait = route.retry.backoff_bounds
    wait = min(max_wait, first * 2.0 ** min(failures - 1, 60))
    return wait * random.uniform(1.0 - route.retry.jitter, 1.0)  # noqa: S311


@_of_consume
def _consume(instance: Instance) -> None:
    if instance.context.exactly_once:
        with as_app_producer(instance):
            result: Any = instance.consumer.consume()
    else:
        result = instance.consumer.consume()
    if result is not None:
        _write_result(instance, result)


@contextlib.contextmanager
def as_app_producer(instance: Instance) -> Iterator[None]:
    """Makes `app.producer` the job's in this thread or task, while a hook of an exactly-once route runs."""
    before = EXACTLY_ONCE_PRODUCER.set(instance.context.job_producer(instance.consumer))
    try:
        yield
    finally:
        EXACTLY_ONCE_PRODUCER.reset(before)


def _write_result(instance: Instance, result: Any) -> None:
    if inspect.isawaitable(result):
        result = run_sync(_await_result(result))
    if result is not None:
        instance.write_result(result)


async def _await_result(result: Awaitable[Any]) -> Any:
    return await result


@_of_consume
async def consume_plain(instance: Instance, job: Job) -> None:
    """Calls and awaits `consume` for a job without listeners. Thousands of such jobs wait at the same time, so each
    resumption passes as few coroutines as possible.
    """
    messages = job.messages
    if messages is None:
        raise AssertionError(f"{job!r} brought no messages")
    consumer = instance.consumer
    consumer.attempt = job.attempt
    consumer.messages, consumer._job = messages, job  # noqa: SLF001
    try:
        if instance.context.exactly_once:
            with as_app_producer(instance):
                result: Any = consumer.consume()
                if result is not None and inspect.isawaitable(result):
                    result = await result
        else:
            result = consumer.consume()
        if result is not None:
            if type(result) is CoroutineType or inspect.isawaitable(result):
                result = await result
            if result is not None:
                await instance.write_result_async(result)
    finally:
        consumer.messages = NO_MESSAGES
        if not instance.keeps_job_after:
            consumer._job = None  # noqa: SLF001


def _call_consume(instance: Instance) -> Any:
    """Calls `consume`, with an event for each record if it goes record by record and a listener is subscribed."""
    consume, records = instance.consume_with_events, instance.context.record_events
    if consume is None or not (records.started or records.finished):
        return instance.consumer.consume()
    return consume(records)


@runs_hooks(lambda names: (names["instance"].context, names["hook"]))
async def _call(instance: Instance, hook: str) -> None:
    with as_app_producer(instance) if instance.context.exactly_once else contextlib.nullcontext():
        result = getattr(instance.consumer, hook)()
        if result is not None and inspect.isawaitable(result):
            await result
