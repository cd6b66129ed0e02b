"""Interface of the App for a consumer instance."""

import sys
from collections.abc import Callable
from datetime import datetime
from typing import Literal, Protocol

from grete import _native
from grete._processing.events.record_events import RecordEvents
from grete._processing.instances.background import Background
from grete._processing.instances.job_producer import JobProducer
from grete._processing.instances.thread_leaks import UnmanagedThread
from grete._routing.provider_scopes import ProcessProviders
from grete.client import Producer
from grete.errors import GreteError
from grete.instrumentation.monitor import Monitor


class GroupClient(Protocol):
    """Client of a consumer group, as far as instances and their jobs use it."""

    def seek(self, topic: str, partition: int, to: int | Literal["earliest", "latest"] | datetime | None) -> None:
        """Moves the position of a partition that is assigned here."""

    def commit_marks(self, job: _native.Job, timeout: float) -> None:
        """Commits what is marked in the partition of the job, within `timeout` seconds."""


class InstanceContext:
    """Context of one instance, created before it and dropped with it."""

    __slots__ = (
        "_job_producer",
        "background",
        "client",
        "dispatcher",
        "exactly_once",
        "job",
        "name",
        "producer",
        "providers",
        "record_events",
        "unmanaged_threads",
    )

    def __init__(
        self,
        name: str,
        job: _native.Job,
        client: GroupClient,
        dispatcher: _native.Dispatcher,
        producer: Callable[[], Producer],
        monitor: Monitor | None = None,
        handler: str = "",
        providers: ProcessProviders | None = None,
    ) -> None:
        """`name`: the instance's, like "Orders on orders[3]"; `job`: any of its lane; `handler`: name of its route."""
        self.providers = providers or ProcessProviders(monitor)
        self.name = name
        self.job = job
        # Whether what its jobs produce is staged, and committed with their offsets.
        self.exactly_once = job.exactly_once
        self.client = client
        self.dispatcher = dispatcher
        self.producer = producer
        self.background = Background(name, dispatcher, monitor)
        self.record_events = RecordEvents(monitor or Monitor(), handler)
        # Threads that the instance's hooks have started themselves.
        self.unmanaged_threads: list[UnmanagedThread] = []
        self._job_producer: JobProducer | None = None

    def job_producer(self, consumer: object) -> JobProducer:
        """Returns the producer of this instance, created on first use. `consumer` is the instance."""
        if (known := self._job_producer) is not None:
            return known
        self._job_producer = made = JobProducer(self.producer(), consumer, self.exactly_once)
        return made

    @staticmethod
    def refuse_on_loop(what: str, remedy: str) -> None:
        """Raises GreteError on a running event loop, which must not wait for anything but its selector."""
        asyncio = sys.modules.get("asyncio")  # a running loop has imported it
        if asyncio is None:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise GreteError(f"{what} would block the event loop for all other jobs: {remedy}")
