"""Producers that know topics: their interface, and the producer of a running App."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grete._native import _TypedProducer as Producer
    from grete._processing.instances.job_producer import JobProducer
    from grete.client.producer import Producer as ClientProducer
else:

    class Producer:
        """Interface of all producers: `produce`, `produce_sync`, `produce_many`, `await send`, `flush`.

        A topic is a name, with bytes as key and value, or a `grete.Topic`, which encodes objects. As the annotation of
        a handler's parameter it is the producer of the job: see `grete.Consumer.producer`, and `grete.client.Producer`
        for the arguments.
        """


# Producer of the exactly-once job that this thread or task runs.
EXACTLY_ONCE_PRODUCER: "ContextVar[JobProducer | None]" = ContextVar("grete_exactly_once_producer", default=None)


class AppProducer:
    """Producer of an App, while the App runs: from any thread and any coroutine of the process.

    It is the producer that the App's handlers share. What it takes belongs to no job: it holds back no offset. In a
    handler, take `grete.Producer` instead. In the thread or the task of an exactly-once job it is the producer of the
    job.
    """

    __slots__ = ("_find",)

    def __init__(self, find: "Callable[[], ClientProducer]") -> None:
        """`find`: returns the producer, or raises GreteError when the App does not run."""
        self._find = find

    def __getattr__(self, name: str) -> Any:
        # Called for what is not defined here: produce_sync, flush, partitions, statistics, ...
        if name.startswith("_") or name == "close":
            raise AttributeError(f"the producer of an App has no {name}: the App closes it when it stops", name=name)
        found = self._find()
        job_producer = EXACTLY_ONCE_PRODUCER.get()
        # The job may be one of another App.
        if job_producer is not None and job_producer.fire_and_forget is found:
            return getattr(job_producer, name)
        return getattr(found, name)

    def __repr__(self) -> str:
        return "<producer of the App>"


__all__ = ["AppProducer", "Producer"]
