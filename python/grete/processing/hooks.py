"""How the hooks of consumer instances are run, in worker threads and on the event loop."""

import inspect
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from grete import _core
from grete._core import Job
from grete.errors import GreteError, RevokedError
from grete.functions import EachRecord
from grete.instrumentation.monitor import Monitor
from grete.processing.dead_letters import DeadLetters
from grete.processing.departure import Departure
from grete.processing.instances import NO_MESSAGES, Instance, Instances, construct
from grete.processing.leaks import runs_hooks
from grete.processing.reports import Reports
from grete.routes import Route

T = TypeVar("T")

# These end the process gracefully; a retry would only repeat them.
FATAL = (SystemExit, KeyboardInterrupt, MemoryError)

# How long the commit waits, in seconds, that goes before the records of an at-most-once route.
_COMMIT_TRY = 30.0

# Calls a function that blocks: right here in a worker thread, in a thread of its own for the event loop.
Blocking = Callable[..., Awaitable[Any]]


class Postponed(Exception):  # noqa: N818
    """No handler has seen the job's records, for the reason that is its cause; `wait` seconds until the next try.

    `hook` is what has failed: "initialize", or the "commit" that goes before at-most-once.
    """

    def __init__(self, hook: str, wait: float) -> None:
        super().__init__()
        self.hook = hook
        self.wait = wait


async def here(function: Callable[..., Any], *args: object) -> Any:
    """`Blocking` for worker threads."""
    return function(*args)


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs what is a coroutine for the event loop's sake in a thread, where nothing in it has to wait for a loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    coroutine.close()
    raise GreteError(
        "a hook is `async def` and awaits, but its consumer's consume is a plain def, which runs in a thread without "
        "an event loop: make consume `async def`, too, or the hook a plain def"
    )


class Hooks:
    """Runs jobs: finds or makes the instance, and calls the hook. One for worker threads, one for the event loop."""

    def __init__(
        self,
        routes: Mapping[int, Route],
        instances: Instances,
        departure: Departure,
        dead_letters: DeadLetters,
        clients: Mapping[int, _core.Client],
        groups: Mapping[int, str],
        blocking: Blocking = here,
        monitor: Monitor | None = None,
    ) -> None:
        """`routes`, `clients` and `groups` (the consumer groups' names) go by `Route.id`."""
        self._routes = routes
        self._instances = instances
        self._departure = departure
        self._dead_letters = dead_letters
        self._clients = clients
        self._blocking = blocking
        self._reports = Reports(monitor or Monitor(), routes, groups)
        self._single = {route.id for route in routes.values() if route.concurrency == "partition"}
        # How often in a row a unit's records could not be handed out, by lane and slot.
        self._failed: dict[tuple[int, int], int] = {}

    def work(self, job: Job) -> None:
        """As `run`, in a worker thread. Plain jobs go without coroutines: these would be a sixth of an empty one."""
        if not job.plain:
            drive(self.run(job))
            return
        instance = self._instances.get(job) or drive(self._initialized(job))
        if instance.commits_first:
            self._commit_first(job)
        messages = job.messages
        if messages is None:
            raise AssertionError(f"{job!r} brought no messages")
        consumer = instance.consumer
        consumer.attempt = job.attempt
        consumer.messages, consumer._job = messages, job  # noqa: SLF001
        try:
            _consume(instance)
        finally:
            # The instance outlives the job; the batch's memory must not.
            consumer.messages = NO_MESSAGES
            if not instance.keeps_job:
                consumer._job = None  # noqa: SLF001

    async def run(self, job: Job) -> None:
        """Runs what the job stands for; raises what the hook raises."""
        plain = job.plain
        if plain or (kind := job.kind) == "consume":
            await self._consume(job, plain)
        elif kind == "dead_letter":
            await self._blocking(self._dead_letters.send, self._routes[job.route], job)
        else:
            with self._reports.hook(job):
                await (self._leave(job) if kind in ("revoked", "shutdown") else self._call_all(job))

    async def _consume(self, job: Job, plain: bool) -> None:
        """As in `work`, where `consume` may be a coroutine, and somebody may listen."""
        instance = self._instances.get(job)
        if instance is None:
            instance = await self._initialized(job)
        if instance.commits_first:
            await self._blocking(self._commit_first, job)
        messages = job.messages
        if messages is None:
            raise AssertionError(f"{job!r} brought no messages")
        consumer = instance.consumer
        consumer.attempt = job.attempt
        consumer.messages, consumer._job = messages, job  # noqa: SLF001
        try:
            if plain:
                await _call(instance, "consume")
            else:
                with self._reports.job(job, messages):
                    await _call_told(instance)
        finally:
            consumer.messages = NO_MESSAGES
            if not instance.keeps_job:
                consumer._job = None  # noqa: SLF001

    async def _initialized(self, job: Job) -> Instance:
        route = self._routes[job.route]
        host = self._instances.host(route, job)
        try:
            with self._reports.around(self._reports.initialized, job):
                instance = construct(route, job, host)
                instance.consumer._job = job  # noqa: SLF001
                await _call(instance, "initialize")
        except BaseException as error:
            await self._departure.stop_background([host], self._blocking)
            self._departure.gone([host])
            if not isinstance(error, Exception) or isinstance(error, FATAL):
                raise
            raise self._postponed(job, "initialize") from error
        self._failed.pop((job.lane, job.slot), None)
        instance.consumer._job = None  # noqa: SLF001
        self._instances.keep(job, instance)
        return instance

    def _commit_first(self, job: Job) -> None:
        """At most once: no handler sees a record before the offset behind it is stored.

        The marks stay when the commit fails, and so does what they say: handed out, as far as a restart is concerned.
        """
        try:
            job.mark_all()
            self._clients[job.route].commit_marks(job, _COMMIT_TRY)
        except RevokedError:
            raise
        except Exception as error:
            raise self._postponed(job, "commit") from error
        self._failed.pop((job.lane, job.slot), None)

    def _postponed(self, job: Job, hook: str) -> Postponed:
        unit = job.lane, job.slot
        failures = self._failed[unit] = self._failed.get(unit, 0) + 1
        return Postponed(hook, _wait(self._routes[job.route], failures))

    async def _leave(self, job: Job) -> None:
        """The last job of a lane: what runs in the background ends, then the hook runs, then the instances are gone."""
        instances = self._instances.pop(job)
        self._dead_letters.forget(job.lane)
        for unit in [unit for unit in list(self._failed) if unit[0] == job.lane]:
            self._failed.pop(unit, None)
        hosts = [instance.host for instance in instances]
        try:
            await self._departure.stop_background(hosts, self._blocking)
            for instance in instances:
                instance.consumer.lost = job.lost
            await self._each(job, instances)
        finally:
            self._departure.gone(hosts)

    async def _call_all(self, job: Job) -> None:
        instances = self._instances.of(job)
        if not instances and job.route in self._single:
            instances = [await self._initialized(job)]
        await self._each(job, instances)

    async def _each(self, job: Job, instances: Iterable[Instance]) -> None:
        """Calls the hook of all: one that fails is no reason to leave out the others."""
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


def _wait(route: Route, failures: int) -> float:
    first, longest = route.retry.waits
    wait = min(longest, first * 2.0 ** min(failures - 1, 60))
    return wait * random.uniform(1.0 - route.retry.jitter, 1.0)  # noqa: S311


_of_consume = runs_hooks(lambda names: (names["instance"].host, "consume"))


@_of_consume
def _consume(instance: Instance) -> None:
    result = instance.consumer.consume()
    if result is not None and inspect.isawaitable(result):
        drive(_awaited(result))


async def _awaited(result: Awaitable[None]) -> None:
    await result


@_of_consume
async def _call_told(instance: Instance) -> None:
    """Calls `consume`, with each record told if it goes record by record and somebody listens to that."""
    consumer, records = instance.consumer, instance.host.records
    result = consumer.consume_told(records) if isinstance(consumer, EachRecord) and records else consumer.consume()
    if result is not None and inspect.isawaitable(result):
        await result


@runs_hooks(lambda names: (names["instance"].host, names["hook"]))
async def _call(instance: Instance, hook: str) -> None:
    result = getattr(instance.consumer, hook)()
    if result is not None and inspect.isawaitable(result):
        await result
