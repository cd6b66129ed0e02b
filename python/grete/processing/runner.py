"""The main thread of a running App: it starts everything, waits for signals and notices, and stops everything."""

import faulthandler
import logging
import os
import selectors
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from typing import NoReturn

from grete import _core
from grete.config import Config
from grete.errors import GreteError, UndeliveredError
from grete.processing import atexit
from grete.processing.hooks import Hooks
from grete.processing.notices import log_notices
from grete.processing.production import Production
from grete.processing.signals import Signals, stderr
from grete.processing.worker import Worker
from grete.routes import Route

logger = logging.getLogger("grete")

# The exit status of a forced stop.
FORCED = 2


def close_reserve(shutdown_timeout: float) -> float:
    """The last part of a stop, kept for committing and leaving the groups though a handler still runs."""
    return min(5.0, shutdown_timeout / 5)


def last_words(shutdown_timeout: float) -> float:
    """The very end of a stop: who could not commit or leave by then still has the time to say so."""
    return min(0.5, shutdown_timeout / 10)


class Runner:
    """One run of an App."""

    def __init__(self, name: str, groups: Mapping[str, Sequence[Route]], config: Config) -> None:
        self._name = name
        self._groups = groups
        self._config = config
        self._timeout: float = config["shutdown_timeout"]
        self._signals = Signals(self._timeout)
        self._requested = threading.Event()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._clients: dict[str, _core.Client] = {}
        self._production = Production(dict(config.kafka_pairs()))
        self._workers: list[Worker] = []
        self._closers: list[threading.Thread] = []
        self._ending: set[threading.Thread] = set()

    # From any thread

    def stop(self) -> None:
        """Begins a graceful stop."""
        self._requested.set()
        self._signals.wake()

    def fail(self, error: BaseException) -> None:
        """Begins a graceful stop, and `run` will raise this (the first one of several)."""
        if self._error is None:
            self._error = error
        self._dispatcher.stop()  # at once, not when the main thread gets to it: the failed job must find it stopped
        self.stop()

    def ending(self, thread: threading.Thread) -> None:
        """The thread does nothing any more but return."""
        self._ending.add(thread)
        self._signals.wake()

    def close_at_exit(self) -> None:
        """The interpreter ends while `run` runs in another thread."""
        self.stop()
        self._ended.wait(self._timeout)

    # The main thread

    def run(self) -> None:
        """Returns after a clean stop, raises what ended it otherwise."""
        self._dispatcher = _core.Dispatcher()
        with self._signals:
            atexit.close_before_exit(self)
            try:
                self._start()
                self._wait()
            except BaseException as error:
                if self._error is None:
                    self._error = error
            try:
                self._shut_down()
            finally:
                self._ended.set()
                atexit.forget(self)
                # The workers know us: without this, descriptors would wait for the garbage collector.
                self._workers, self._closers, self._clients = [], [], {}
                self._ending.clear()
        if self._error is not None:
            raise self._error

    def _start(self) -> None:
        routes = [route for members in self._groups.values() for route in members]
        hooks = Hooks(routes, self._production.producer)
        for group, members in self._groups.items():
            pairs = self._config.kafka_pairs(
                {"group.id": group, "enable.auto.commit": "true", "queued_bytes": str(self._config["queued_bytes"])}
            )
            default = self._config["max_messages"]
            wanted = [(route.id, list(route.topics), route.max_messages or default) for route in members]
            self._clients[group] = client = _core.Client(pairs, self._dispatcher, wanted)
            client.subscribe([topic for route in members for topic in route.topics])
        self._workers = [
            Worker(number, self._dispatcher, hooks, self) for number in range(1, self._config["workers"] + 1)
        ]
        for worker in self._workers:
            worker.start()
        topics = sorted({topic for route in routes for topic in route.topics})
        logger.info(
            'App "%s" runs: %s; group %s; %d workers',
            self._name,
            ", ".join(topics),
            ", ".join(self._groups),
            len(self._workers),
            extra={"event": "app.running", "topics": topics, "groups": list(self._groups)},
        )

    def _wait(self) -> None:
        """Until a stop is asked for."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals.fd, selectors.EVENT_READ)
            selector.register(self._dispatcher.event_fd(), selectors.EVENT_READ)
            while not self._requested.is_set():
                selector.select()
                for signum in self._signals.read():
                    logger.info("%s: stopping", signal.Signals(signum).name, extra={"event": "app.stopping"})
                    self._requested.set()
                self._look()

    def _look(self) -> None:
        """Logs notices; a client that failed for good ends the run."""
        log_notices(logger, self._dispatcher.take_notices())
        try:
            self._dispatcher.check()
        except GreteError as error:
            if self._error is None:
                logger.error("%s", error, extra={"event": "app.failed"})
                self._error = error
            self._requested.set()

    def _shut_down(self) -> None:
        """Jobs in flight end, then the clients commit and leave, all before one deadline."""
        deadline = time.monotonic() + self._timeout
        guard = _core.StopGuard(self._timeout, self._signals.dump)
        self._dispatcher.stop()
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals.fd, selectors.EVENT_READ)
            selector.register(self._dispatcher.event_fd(), selectors.EVENT_READ)
            self._await_threads(selector, self._workers, deadline - close_reserve(self._timeout))
            if any(worker.is_alive() for worker in self._workers):
                self._log_running()
                self._dispatcher.release_workers()
            self._close_production(selector, deadline - close_reserve(self._timeout) / 2)
            self._close_clients(deadline - last_words(self._timeout))
            self._await_threads(selector, self._closers, deadline)
            late = [thread for thread in (*self._workers, *self._closers) if thread.is_alive()]
        log_notices(logger, self._dispatcher.take_notices())
        if late:
            self._force(f"not over after shutdown_timeout ({self._timeout:g} s): {', '.join(t.name for t in late)}")
        guard.disarm()
        logger.info('App "%s" has stopped', self._name, extra={"event": "app.stopped"})

    def _await_threads(
        self, selector: selectors.BaseSelector, threads: Sequence[threading.Thread], deadline: float
    ) -> None:
        """Until all have ended (each says so with its last breath) or the deadline has come."""
        while any(thread.is_alive() and thread not in self._ending for thread in threads):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            selector.select(left)
            for signum in self._signals.read():
                if signum == signal.SIGINT:
                    self._force("second SIGINT")
            log_notices(logger, self._dispatcher.take_notices())
        for thread in threads:
            if thread.is_alive():
                thread.join()

    def _close_production(self, selector: selectors.BaseSelector, deadline: float) -> None:
        """What handlers produced is delivered before the offsets behind it are committed."""
        if not self._production.started:
            return

        def close() -> None:
            try:
                undelivered = self._production.close(max(0.0, deadline - time.monotonic()))
                if undelivered and self._error is None:
                    self._error = UndeliveredError(
                        f"stopped with undelivered records: {undelivered}", undelivered=undelivered
                    )
            finally:
                self.ending(threading.current_thread())

        closer = threading.Thread(target=close, name="grete-close-producer", daemon=True)
        self._closers.append(closer)
        closer.start()
        self._await_threads(selector, [closer], deadline + last_words(self._timeout))

    def _close_clients(self, deadline: float) -> None:
        for group, client in self._clients.items():
            closer = threading.Thread(
                target=self._close, args=(group, client, deadline), name=f"grete-close-{group}", daemon=True
            )
            self._closers.append(closer)
            closer.start()

    def _close(self, group: str, client: _core.Client, deadline: float) -> None:
        try:
            client.close(max(0.0, deadline - time.monotonic()))
        except Exception as error:
            logger.exception(
                'group "%s" was not left cleanly', group, extra={"event": "group.not_left", "group": group}
            )
            if self._error is None:
                self._error = error
        finally:
            self.ending(threading.current_thread())

    def _log_running(self) -> None:
        names = {route.id: route.name for members in self._groups.values() for route in members}
        for job in self._dispatcher.running():
            handler, place = names.get(job["route"], "?"), f"{job['topic']}[{job['partition']}]"
            text = "%s still runs after %.1f s (%s, %s); its unmarked records will be processed again"
            extra = {"event": "app.late_job", "handler": handler}
            logger.error(text, handler, job["seconds"], place, job["worker"], extra=extra)

    def _force(self, reason: str) -> NoReturn:
        """Ends the process with all stacks on stderr: whoever hangs is among them."""
        logger.error("forced stop: %s", reason, extra={"event": "app.forced"})
        faulthandler.dump_traceback(file=stderr(), all_threads=True)
        logging.shutdown()
        os._exit(FORCED)
