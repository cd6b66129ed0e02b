"""Consumer instances: one per unit of the dispatcher, from its first job to the last job of its lane."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grete import _native
from grete._native import Job, Messages
from grete._processing.events.record_events import RecordEvents
from grete._processing.instances.context import GroupClient, InstanceContext
from grete._processing.instances.thread_leaks import runs_hooks
from grete._routing.function_consumers import EachRecord
from grete._routing.provider_scopes import ProcessProviders
from grete._routing.results import ResultWriter
from grete._routing.routes import Route
from grete.client import Producer
from grete.consumer import Consumer
from grete.instrumentation.monitor import Monitor

# Messages of a consumer between its jobs.
NO_MESSAGES = Messages.empty()


@dataclass(slots=True, eq=False)
class Instance:
    """A consumer with its data. The data is not in the consumer, because a user's class may have slots."""

    consumer: Consumer
    context: InstanceContext
    # Settings of its route: whether offsets are committed before the records are handed out, or marked after the job.
    commits_before: bool
    keeps_job_after: bool
    # Gets the results of `consume`.
    route: Route
    # Calls the handler record by record, with events; None: the handler gets all records at once.
    consume_with_events: Callable[[RecordEvents], Any] | None

    def write_result(self, result: Any) -> None:
        """Writes a result of `consume` in a worker thread, or drops it."""
        if (writer := self._writer(result)) is not None:
            writer.write_batch(result, self.consumer.messages)

    async def write_result_async(self, result: Any) -> None:
        """Writes a result of `consume` on the event loop, or drops it."""
        if (writer := self._writer(result)) is not None:
            await writer.write_batch_async(result, self.consumer.messages)

    def _writer(self, result: Any) -> ResultWriter | None:
        if self.route.result_topic is None:
            self.route.warn_dropped(type(result))
            return None
        return ResultWriter(self.route.result_topic, self.consumer.producer)


class InstanceRegistry:
    """Instances by lane (an assigned partition), and within a lane by slot (0 unless the route's concurrency has more).

    A unit has at most one job in flight, and a lane's own jobs run while none of its units does. So an instance is
    never used by two threads at once. All workers share the dicts; single operations on them are atomic.
    """

    def __init__(
        self,
        dispatcher: _native.Dispatcher,
        clients: Mapping[int, GroupClient],
        producer: Callable[[], Producer],
        monitor: Monitor | None = None,
        providers: ProcessProviders | None = None,
    ) -> None:
        """`clients` go by `Route.id`."""
        self._providers = providers
        self._dispatcher = dispatcher
        self._clients = clients
        self._producer = producer
        self._monitor = monitor
        self._lanes: dict[int, dict[int, Instance]] = {}

    def __len__(self) -> int:
        return sum(len(lane) for lane in list(self._lanes.values()))

    def get(self, job: Job) -> Instance | None:
        """Returns the instance for a unit's job; None: not initialized yet."""
        lane = self._lanes.get(job.lane)
        return None if lane is None else lane.get(job.slot)

    def new_context(self, route: Route, job: Job) -> InstanceContext:
        """Returns the context for a new instance."""
        name = f"{route.name.removesuffix('.consume')} on {job.topic}[{job.partition}]"
        if job.slot:
            name += f" (slot {job.slot})"
        return InstanceContext(
            name,
            job,
            self._clients[job.route],
            self._dispatcher,
            self._producer,
            self._monitor,
            route.name,
            self._providers,
        )

    def add(self, job: Job, instance: Instance) -> None:
        """Adds an initialized instance: `get` finds it from now on."""
        self._lanes.setdefault(job.lane, {})[job.slot] = instance

    def for_lane(self, job: Job) -> Sequence[Instance]:
        """Returns all instances of the job's lane."""
        return tuple(self._lanes.get(job.lane, {}).values())

    def pop(self, job: Job) -> Sequence[Instance]:
        """Removes and returns all instances of the job's lane."""
        return tuple(self._lanes.pop(job.lane, {}).values())

    def all(self) -> Sequence[Instance]:
        """Returns all instances of all lanes."""
        return tuple(instance for lane in list(self._lanes.values()) for instance in list(lane.values()))


@runs_hooks(lambda names: (names["context"], "__init__"))
def create(route: Route, job: Job, context: InstanceContext) -> Instance:
    """Creates a consumer, not initialized yet. Raises what its `__init__` raises."""
    consumer = route.new_consumer()
    consumer.topic, consumer.partition = job.topic, job.partition
    consumer.messages = NO_MESSAGES
    consumer._context = context  # noqa: SLF001
    return Instance(
        consumer,
        context,
        route.offsets == "at_most_once",
        route.offsets == "manual",
        route,
        consumer.consume_with_events if isinstance(consumer, EachRecord) else None,
    )
