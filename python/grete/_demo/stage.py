"""Resources of a running demo, and waits for what they report."""

import logging
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self, TypeVar

from grete._demo import invoices, orders
from grete._demo.children import SHUTDOWN_TIMEOUT, Swarm, spawn
from grete._demo.claims import ClaimFailedError, InterruptedDemoError
from grete._demo.invoices import Invoices
from grete._demo.orders import OrderProducer
from grete._demo.picture import Picture, View
from grete.broker import Broker
from grete.errors import GreteError

T = TypeVar("T")

DEAD_LETTERS = "orders.dlq"
GROUP = "demo"
TOPICS = {orders.TOPIC: 4, invoices.TOPIC: 4, DEAD_LETTERS: 1}
STORY_SECONDS = 50.0
"""Time of all steps together. With the stop afterwards the demo ends within a minute."""
_FRAME_SECONDS = 0.1
# A short start: members hear of new partitions with their next heartbeat.
_SETTINGS = {"group.consumer.heartbeat.interval.ms": 500, "group.consumer.min.heartbeat.interval.ms": 500}
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stage:
    """Broker, producer, swarm and a directory for their files, from `with` to its end."""

    def __init__(self, picture: Picture, view: View, web_port: int | None = None) -> None:
        """`web_port`: port of `grete web`, which shows the App (0: a free one); None: without it."""
        self.picture = picture
        self._view = view
        self._web_port = web_port
        self._deadline = picture.started + STORY_SECONDS
        self._signals: list[int] = []
        self._handlers: dict[int, object] = {}
        self.keep_directory = False
        """Whether the directory with the log of the App outlives the demo."""

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup, or a background job of a script
                self._handlers[number] = signal.signal(number, self._on_signal)
        with ExitStack() as stack:
            stack.callback(self._restore_signals)
            self.directory = Path(tempfile.mkdtemp(prefix="grete-demo-"))
            stack.callback(self._remove_directory)
            self._log_to_file(stack)
            self.broker = stack.enter_context(Broker(topics=TOPICS, auto_create_topics=False, settings=_SETTINGS))
            self.picture.bootstrap_servers = self.broker.bootstrap_servers
            self.picture.note(f"a broker listens on {self.picture.bootstrap_servers}")
            self._view.draw(self.picture)
            self.invoices = Invoices(self.broker)
            settings = {} if self._web_port is None else self._start_web(self._web_port, stack)
            self.swarm = Swarm(self.broker.bootstrap_servers, self.directory, settings)
            stack.callback(self.swarm.close)
            self.producer = OrderProducer(self.broker.bootstrap_servers)
            stack.callback(self.producer.stop)
            stack.callback(self.stop_swarm)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def has_web(self) -> bool:
        """Whether pages show the App."""
        return self._web_port is not None

    def _start_web(self, port: int, stack: ExitStack) -> dict[str, str]:
        """Starts `grete web`. Returns the settings with which the App reports to it."""
        words = ["web", "--setup", "--port", str(port), "--bootstrap", self.broker.bootstrap_servers]
        log = self.directory / "web.log"
        with log.open("wb") as output:
            process = spawn(words, self.directory, subprocess.PIPE, output.fileno())
        stack.enter_context(process)
        stack.callback(process.terminate)
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        if not address:
            process.wait()
            raise GreteError(log.read_text(errors="replace").strip().removeprefix("Error: "))
        self.picture.note(address)
        return {"GRETE_WEB_REPORTS": "1s"}

    def wait_for_signal(self) -> None:
        """Draws until a signal has arrived, which is then handled. The time does not count."""
        begun = time.monotonic()
        while not self._signals:
            self.draw()
            self._check()
            select.select([], [], [], _FRAME_SECONDS)
        self._signals.clear()
        self._deadline += time.monotonic() - begun

    @property
    def log(self) -> Path:
        """Log of the App."""
        return self.directory / "swarm-app.log"

    def draw(self) -> None:
        """Reads what all parts report, and shows it."""
        self.swarm.read_failures()
        self.picture.stopped = self.swarm.exit_status() is not None
        status = self.swarm.status()
        self.picture.nodes = [] if status is None else status["nodes"]
        self.picture.written.set(self.producer.written)
        self.invoices.read()
        self.picture.handled.set(self.invoices.orders)
        self._view.draw(self.picture)

    def wait_for(self, condition: Callable[[], T | None], seconds: float, what: str) -> T:
        """Draws until the condition is neither None nor False, and returns its value.

        Raises ClaimFailedError when the time is over, or when the swarm or the producer has ended; InterruptedDemoError
        after a signal.
        """
        begun = time.monotonic()
        while True:
            self.draw()
            value = condition()
            if value is not None and value is not False:
                return value
            self._check()
            if time.monotonic() >= self._deadline:
                raise ClaimFailedError(
                    f"{STORY_SECONDS:.0f} s were too short for {what}: repeat the demo on a less busy machine"
                )
            if time.monotonic() >= begun + seconds:
                raise ClaimFailedError(f"waited {time.monotonic() - begun:.0f} s for {what}")
            select.select([], [], [], _FRAME_SECONDS)

    def raise_if_interrupted(self) -> None:
        """Raises InterruptedDemoError if a signal has arrived."""
        if self._signals:
            raise InterruptedDemoError(self._signals[0])

    def _check(self) -> None:
        self.raise_if_interrupted()
        if (failure := self.broker.failure()) is not None:
            raise ClaimFailedError(f"the broker has ended: {failure}")
        if self.producer.failure is not None:
            raise ClaimFailedError(self.producer.failure)
        if (status := self.swarm.exit_status()) is not None:
            raise ClaimFailedError(f"the swarm has ended with status {status}")

    def stop_swarm(self) -> int | None:
        """Stops the swarm and waits for its end. Returns its exit status; None: it did not end in time.

        A signal during the wait ends the wait.
        """
        if self.swarm.exit_status() is not None:
            return self.swarm.exit_status()
        seen = len(self._signals)
        deadline = time.monotonic() + SHUTDOWN_TIMEOUT + 2.0
        self.swarm.terminate()
        while self.swarm.exit_status() is None and time.monotonic() < deadline and len(self._signals) == seen:
            self.draw()
            select.select([], [], [], _FRAME_SECONDS)
        self.draw()
        return self.swarm.exit_status()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def _restore_signals(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _remove_directory(self) -> None:
        if not self.keep_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _log_to_file(self, stack: ExitStack) -> None:
        """Keeps warnings of this process out of the picture."""
        handler = logging.FileHandler(self.directory / "demo.log")
        stack.callback(handler.close)
        logger = logging.getLogger("grete")
        logger.addHandler(handler)
        stack.callback(logger.removeHandler, handler)
