"""What a consumer instance may ask of the App that runs it."""

import sys
from collections.abc import Callable

from grete import _core
from grete.client import Producer
from grete.errors import GreteError
from grete.instrumentation.monitor import Monitor
from grete.processing.background import Background
from grete.processing.leaks import RawThread
from grete.processing.records import Records


class Host:
    """One for each instance, made before it and gone with it."""

    __slots__ = ("background", "client", "dispatcher", "job", "name", "producer", "raw_threads", "records")

    def __init__(
        self,
        name: str,
        job: _core.Job,
        client: _core.Client,
        dispatcher: _core.Dispatcher,
        producer: Callable[[], Producer],
        monitor: Monitor | None = None,
        handler: str = "",
    ) -> None:
        """`name` is the instance's, like "Orders on orders[3]"; `job` any of its lane's; `handler` its route's name."""
        self.name = name
        self.job = job
        self.client = client
        self.dispatcher = dispatcher
        self.producer = producer
        self.background = Background(name, dispatcher, monitor)
        self.records = Records(monitor or Monitor(), handler)
        # Threads that its hooks have started themselves.
        self.raw_threads: list[RawThread] = []


def refuse_on_loop(what: str, cure: str) -> None:
    """Raises GreteError where an event loop runs, which must not wait for anything but its selector."""
    asyncio = sys.modules.get("asyncio")  # who has a loop has imported it
    if asyncio is None:
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise GreteError(f"{what} would block the event loop for all other jobs: {cure}")
