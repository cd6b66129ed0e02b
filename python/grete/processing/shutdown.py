"""How a run ends: handlers finish, hooks run, records are delivered, offsets committed, groups left."""

import functools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from grete import _core, errors
from grete.client import Undelivered
from grete.errors import UndeliveredError
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.processing import atexit
from grete.processing.engine import Engine
from grete.processing.lookout import Lookout
from grete.processing.production import Production
from grete.processing.signals import dump_stacks

logger = logging.getLogger("grete")

# For a thread that has been given up to say so itself: the end of the time is near, but not yet there.
_LAST_WORDS = 0.1


class Shutdown:
    """Runs one stop against its one deadline, as far as the GIL lets it; native threads do the rest: `_core.Stop`."""

    def __init__(
        self,
        stop: _core.Stop,
        dispatcher: _core.Dispatcher,
        production: Production,
        lookout: Lookout,
        exits: bool,
        monitor: Monitor | None = None,
    ) -> None:
        self._stop = stop
        self._dispatcher = dispatcher
        self._production = production
        self._lookout = lookout
        self._exits = exits
        self._tell = functools.partial(tell, monitor, logger)
        self._ending: set[threading.Thread] = set()
        self._errors: list[Exception] = []

    def ending(self, thread: threading.Thread) -> None:
        """The thread does nothing any more but return."""
        self._ending.add(thread)
        self._stop.wake()

    def run(self, engine: Engine | None) -> Exception | None:
        """Returns what went wrong. A stop that is not over in time ends the process, if that is the App's own."""
        self._stop.begin()
        if engine is not None:
            engine.leave(time.monotonic() + _left(self._stop).handlers)
        threads = engine.threads if engine is not None else ()
        self._await(threads, lambda left: left.handlers)
        running: list[str] = []
        cut = 0
        if engine is not None and _alive(threads):
            running, cut = self._describe(engine), engine.cut
            for line in running:
                text = "does not end, and what it has not marked will be processed again: %s"
                self._tell(logging.ERROR, "app.late_job", text, line)
        # Whoever runs no handler has nothing to wait for any more, and gets no job on the way out.
        self._dispatcher.release_workers()
        closer = threading.Thread(target=self._close, args=(engine,), name="grete-close", daemon=True)
        closer.start()
        self._await([closer], lambda left: left.everything - _LAST_WORDS)
        self._await(threads, lambda left: left.everything - _LAST_WORDS)
        self._lookout.tell()
        late = _alive([*threads, closer])
        if late and engine is not None:
            running = self._describe(engine)
            for line in running:
                self._tell(logging.ERROR, "app.blocked", "not over in time: %s", line)
        # A task that was cancelled has ended, but not by itself.
        if late or (engine is not None and running and engine.cut > cut):
            self._give_up([line.partition("\n")[0] for line in running], late)
        self._ending.clear()  # these threads know us
        return self._errors[0] if self._errors else None

    def _await(self, threads: Sequence[threading.Thread], limit: "Callable[[_Left], float]") -> None:
        """Until all have ended (each says so with its last breath) or the limit has come."""
        while any(thread.is_alive() and thread not in self._ending for thread in threads):
            left = limit(_left(self._stop))
            if left <= 0:
                break
            # Somebody who hurries moves the limit, and wakes us.
            for signum in self._lookout.wait(left):
                if signum == signal.SIGINT:
                    self._tell(logging.WARNING, "app.hurried", "SIGINT again: no handler is waited for")
        for thread in threads:
            if thread in self._ending:
                thread.join()

    def _close(self, engine: Engine | None) -> None:
        try:
            delivery = _left(self._stop).delivery
            if engine is not None:
                engine.close_background(time.monotonic() + delivery)
            # Here and not in the farewell alone: callbacks of deliveries are Python's.
            self._production.close(_left(self._stop).delivery)
            self._hear(self._stop.say_farewell())
        except Exception as error:
            self._tell(logging.ERROR, "app.stop_failed", "the stop failed", error=error)
            self._errors.append(error)
        finally:
            self.ending(threading.current_thread())

    def _hear(self, parting: tuple[bool, dict[str, int], int, int, list[tuple[str, Exception]]] | None) -> None:
        if parting is None:
            return  # a native thread is at it, and will have to be given up
        committed, by_topic, not_written, unknown, not_left = parting
        if not committed:
            undelivered = Undelivered(by_topic, not_written, unknown)
            self._errors.append(
                UndeliveredError(
                    f"stopped with undelivered records: {undelivered}; the offsets behind them were not committed: "
                    "what was processed since the last commit will be processed again",
                    undelivered=undelivered,
                )
            )
            self._tell(
                logging.ERROR, "app.not_committed", "%s", self._errors[-1], error=self._errors[-1], traceback=False
            )
        for group, error in not_left:
            text = 'group "%s" was not left cleanly: %s'
            fields = {"group": group}
            self._tell(logging.ERROR, "group.not_left", text, group, error, fields=fields, error=error, traceback=False)
            self._errors.append(error)

    def _give_up(self, running: Sequence[str], late: Sequence[threading.Thread]) -> None:
        """The time is up."""
        reason = f"not over after shutdown_timeout: {'; '.join(running or [thread.name for thread in late])}"
        if self._exits:
            self._force(reason, dump=not running)
        atexit.abandon(late)
        self._errors.insert(0, errors.TimeoutError(f"{reason}. What it has not marked will be processed again"))

    def _force(self, reason: str, dump: bool) -> NoReturn:
        self._tell(logging.ERROR, "app.forced", "forced stop: %s", reason)
        if dump:
            dump_stacks()
        logging.shutdown()
        os._exit(atexit.FORCED)

    def _describe(self, engine: Engine) -> list[str]:
        """Nothing, rather than a stop that ends with the description of what keeps it from ending."""
        try:
            return engine.describe_running()
        except Exception as error:
            self._tell(logging.ERROR, "app.stop_failed", "running handlers cannot be described", error=error)
            return []


class _Left:
    """Seconds until the points of a stop that is under way."""

    __slots__ = ("closing", "delivery", "everything", "handlers")

    def __init__(self, handlers: float, delivery: float, closing: float, everything: float) -> None:
        self.handlers, self.delivery, self.closing, self.everything = handlers, delivery, closing, everything


def _left(stop: _core.Stop) -> _Left:
    return _Left(*(stop.left() or (0.0, 0.0, 0.0, 0.0)))


def _alive(threads: Sequence[threading.Thread]) -> list[threading.Thread]:
    return [thread for thread in threads if thread.is_alive()]
