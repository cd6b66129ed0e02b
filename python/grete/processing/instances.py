"""Consumer instances: one for each unit that the dispatcher schedules, from its first job to its lane's last."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grete import _core
from grete._core import Job, Messages
from grete.client import Producer
from grete.consumer import Consumer
from grete.instrumentation.monitor import Monitor
from grete.processing.host import Host
from grete.processing.leaks import runs_hooks
from grete.routes import Route

# What a consumer holds between its jobs.
NO_MESSAGES = Messages.empty()


@dataclass(slots=True, eq=False)
class Instance:
    """A consumer and what belongs to it; a class of a user's may have slots, and no room for more."""

    consumer: Consumer
    host: Host
    # Of its route: whether records are committed before they are handed over, or may be marked after their job.
    commits_first: bool
    keeps_job: bool


class Instances:
    """By lane (an assigned partition), and within it by slot: 0, unless the route's concurrency has many.

    A unit has one job in flight at most, and a lane's own jobs run while no unit of it does, so an instance is never
    used by two threads at once. The dicts are shared by all workers; their single operations are atomic.
    """

    def __init__(
        self,
        dispatcher: _core.Dispatcher,
        clients: Mapping[int, _core.Client],
        producer: Callable[[], Producer],
        monitor: Monitor | None = None,
    ) -> None:
        """`clients` go by `Route.id`."""
        self._dispatcher = dispatcher
        self._clients = clients
        self._producer = producer
        self._monitor = monitor
        self._lanes: dict[int, dict[int, Instance]] = {}

    def __len__(self) -> int:
        return sum(len(lane) for lane in list(self._lanes.values()))

    def get(self, job: Job) -> Instance | None:
        """The instance for a unit's job, if it has been initialised."""
        lane = self._lanes.get(job.lane)
        return None if lane is None else lane.get(job.slot)

    def host(self, route: Route, job: Job) -> Host:
        """What a new instance is to be made with."""
        name = f"{route.name.removesuffix('.consume')} on {job.topic}[{job.partition}]"
        if job.slot:
            name += f" (slot {job.slot})"
        return Host(name, job, self._clients[job.route], self._dispatcher, self._producer, self._monitor, route.name)

    def keep(self, job: Job, instance: Instance) -> None:
        """It is initialised: `get` finds it from now on."""
        self._lanes.setdefault(job.lane, {})[job.slot] = instance

    def of(self, job: Job) -> Sequence[Instance]:
        """All instances of the job's lane."""
        return tuple(self._lanes.get(job.lane, {}).values())

    def pop(self, job: Job) -> Sequence[Instance]:
        """All instances of the job's lane, which are kept no longer."""
        return tuple(self._lanes.pop(job.lane, {}).values())

    def all(self) -> Sequence[Instance]:
        """All instances of all lanes."""
        return tuple(instance for lane in list(self._lanes.values()) for instance in list(lane.values()))


@runs_hooks(lambda names: (names["host"], "__init__"))
def construct(route: Route, job: Job, host: Host) -> Instance:
    """A new consumer, not initialised yet. Raises what its `__init__` raises."""
    consumer = route.new_consumer()
    consumer.topic, consumer.partition = job.topic, job.partition
    consumer.messages = NO_MESSAGES
    consumer._host = host  # noqa: SLF001
    return Instance(consumer, host, route.offsets == "at_most_once", route.offsets == "manual")
