"""Consumer instances by lane, and how their hooks are run."""

from collections.abc import Callable, Sequence

from grete._core import Job, Messages
from grete.client import Producer
from grete.consumer import Consumer
from grete.routes import Route

# What a consumer holds between its jobs.
_NO_MESSAGES = Messages.empty()


class Hooks:
    """One consumer instance per lane (an assigned partition), from its first job to its last.

    A lane has one job in flight at most, so an instance is never used by two threads at once. The dict is shared by
    all workers; its single operations are atomic.
    """

    def __init__(self, routes: Sequence[Route], producer: Callable[[], Producer]) -> None:
        self._routes = {route.id: route for route in routes}
        self._consumers: dict[int, Consumer] = {}
        self._producer = producer

    def __len__(self) -> int:
        return len(self._consumers)

    def name(self, job: Job) -> str:
        """The handler of a job, for messages."""
        return self._routes[job.route].name

    def run(self, job: Job) -> None:
        """Runs the hook that the job stands for; raises what the hook raises."""
        if job.kind == "consume":
            self._consume(job)
            return
        consumer = self._consumers.pop(job.lane, None)
        if consumer is None:
            return  # the partition went before its first record came
        if job.kind == "revoked":
            consumer.lost = job.lost
            consumer.revoked()
        else:
            consumer.shutdown()

    def _consume(self, job: Job) -> None:
        consumer = self._consumers.get(job.lane)
        if consumer is None:
            consumer = self._routes[job.route].new_consumer()
            consumer.topic, consumer.partition = job.topic, job.partition
            consumer.messages = _NO_MESSAGES
            consumer._new_producer = self._producer  # noqa: SLF001
            consumer.initialize()
            self._consumers[job.lane] = consumer
        messages = job.messages
        if messages is None:
            raise AssertionError(f"{job!r} brought no messages")
        consumer.attempt = job.attempt
        consumer.messages, consumer._job = messages, job  # noqa: SLF001
        try:
            consumer.consume()
        finally:
            # The instance outlives the job; the batch's memory must not.
            consumer.messages, consumer._job = _NO_MESSAGES, None  # noqa: SLF001
