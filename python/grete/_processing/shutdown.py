"""Stop of a run: handlers finish, hooks run, records are delivered, offsets committed, groups left."""

import functools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from grete import _native, errors
from grete._process import exit_hooks
from grete._process.stacks import dump_stacks
from grete._processing.engine.engine import Engine
from grete._processing.engine.run_control import JobThread
from grete._processing.instances.shared_producer import SharedProducer
from grete._processing.main_loop import MainLoop
from grete.client import Undelivered
from grete.errors import UndeliveredError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    from grete._processing.lifecycle_run import LifecycleRun

logger = logging.getLogger("grete")

# Seconds before the deadline in which a thread that is given up can still log so itself.
_REPORT_TIME = 0.1
# Number of records that one log line names.
_MAX_PLACES = 5


class ShutdownSequence:
    """Runs one stop against one deadline, as far as the GIL allows. Native threads do the rest: `_native.Shutdown`."""

    def __init__(
        self,
        stop: _native.Shutdown,
        dispatcher: _native.Dispatcher,
        shared_producer: SharedProducer,
        main_loop: MainLoop,
        may_exit: bool,
        monitor: Monitor | None = None,
    ) -> None:
        self._stop = stop
        self._dispatcher = dispatcher
        self._shared_producer = shared_producer
        self._main_loop = main_loop
        self._may_exit = may_exit
        self._emit = functools.partial(log_and_emit, monitor, logger)
        self._exited: set[JobThread] = set()
        self._errors: list[Exception] = []
        self._standby: list[_StandbyThread] = []

    def prepare(self, hooks: bool) -> None:
        """Starts the threads that the stop will need, because it may begin when the interpreter ends.

        `hooks`: whether hooks of the stop need a thread, too.
        """
        for _ in range(1 + hooks):
            thread = _StandbyThread()
            self._standby.append(thread)
            thread.start()

    def release(self) -> None:
        """Ends the threads that the stop has not needed."""
        for thread in self._standby:
            thread.begin(_nothing, thread.name)
            thread.join()
        self._standby.clear()

    def on_exit(self, thread: JobThread) -> None:
        """Handles a job thread that is about to return."""
        self._exited.add(thread)
        self._stop.wake()

    def run(
        self, engine: Engine | None, before_leave: Callable[[], None], lifecycle: "LifecycleRun | None" = None
    ) -> Exception | None:
        """Runs the stop. Returns its first error; None: clean. A stop that exceeds its deadline exits the process,
        unless the process belongs to a host.

        `before_leave` is called just before the groups are left. `lifecycle`: hooks that run after the last handler.
        """
        self._stop.begin()
        if engine is not None:
            engine.begin_shutdown(time.monotonic() + _remaining(self._stop).handlers)
        threads = engine.threads if engine is not None else ()
        self._join_all(threads, lambda left: left.handlers)
        if engine is not None:
            engine.check_host_loop()
        running: list[str] = []
        cancelled_before = 0
        if engine is not None and _alive(threads):
            running, cancelled_before = self._describe_running(engine), engine.cancelled_jobs
            for line in running:
                text = "does not end, and what it has not marked will be processed again: %s"
                self._emit(logging.ERROR, "app.job_unfinished", text, line)
        hooks = self._begin_hooks(lifecycle, threads)
        self._join_all(hooks, lambda left: left.handlers)
        if lifecycle is not None and _alive(hooks):
            lifecycle.log_unfinished()
        if engine is not None:
            self._report_done_ahead(engine)
        # A worker without a handler has nothing to wait for any more, and must get no further job.
        self._dispatcher.release_workers()
        closer = self._start_thread(lambda: self._close(engine, before_leave), "grete-close")
        self._join_all([closer], lambda left: left.everything - _REPORT_TIME)
        self._join_all(threads, lambda left: left.everything - _REPORT_TIME)
        # Handlers that have ended only now, or were cancelled when their time was up.
        hooks = hooks or self._begin_hooks(lifecycle, threads)
        self._join_all(hooks, lambda left: left.everything - _REPORT_TIME)
        if lifecycle is not None:
            if not hooks:
                lifecycle.skip()
            self._errors += lifecycle.errors
        self._main_loop.drain_log_events()
        unfinished = _alive([*threads, closer, *hooks])
        if unfinished:
            running = self._log_unfinished(engine, lifecycle, hooks)
        # A task that was cancelled has ended, but not by itself.
        if unfinished or (engine is not None and running and engine.cancelled_jobs > cancelled_before):
            self._on_timeout([line.partition("\n")[0] for line in running], unfinished)
        self._exited.clear()  # these threads refer to this object
        return self._errors[0] if self._errors else None

    def _log_unfinished(
        self, engine: Engine | None, lifecycle: "LifecycleRun | None", hooks: Sequence[JobThread]
    ) -> list[str]:
        """Logs what has not ended at the deadline, and returns its descriptions."""
        lines = self._describe_running(engine) if engine is not None else []
        if lifecycle is not None and _alive(hooks):
            lines += lifecycle.describe_unfinished()
        for line in lines:
            self._emit(logging.ERROR, "app.stop_timeout", "did not end within shutdown_timeout: %s", line)
        return lines

    def _begin_hooks(self, lifecycle: "LifecycleRun | None", threads: Sequence[JobThread]) -> list[threading.Thread]:
        """Starts the hooks of the stop, if no handler runs any more. Returns their thread, if there is one."""
        if lifecycle is None or _alive(threads):
            return []

        def flush() -> None:
            # What handlers have produced comes first: its delivery callbacks may need what the hooks close.
            self._shared_producer.flush(_remaining(self._stop).handlers)

        def limit() -> float:
            left = _remaining(self._stop)
            return left.handlers or left.everything / 2

        return [lifecycle.begin_stop(flush, self.on_exit, limit, self._start_thread)]

    def _start_thread(self, function: Callable[[], None], name: str) -> threading.Thread:
        if self._standby:
            standby = self._standby.pop()
            standby.begin(function, name)
            return standby
        thread = threading.Thread(target=function, name=name, daemon=True)
        thread.start()
        return thread

    def _report_done_ahead(self, engine: Engine) -> None:
        """Logs how many processed records will be processed again, and how to avoid that."""
        lanes = engine.done_ahead()
        if not lanes:
            return
        records = sum(lane["done_ahead"] for lane in lanes)
        places = [f"{lane['topic']}[{lane['partition']}]@{lane['committable']}" for lane in lanes]
        shown = ", ".join(places[:_MAX_PLACES]) + (", ..." if len(places) > _MAX_PLACES else "")
        self._emit(
            logging.WARNING,
            "offset.done_ahead",
            "%d processed records will be processed again after the next start: they are behind records that are not "
            "processed, for example because of a retry (%s); offset_map=True of the route remembers them",
            records,
            shown,
            fields={"records": records, "partitions": [(lane["topic"], lane["partition"]) for lane in lanes]},
        )

    def _join_all(self, threads: Sequence[JobThread], limit: "Callable[[_Remaining], float]") -> None:
        """Waits until all threads have ended (each calls `on_exit` as its last step), or until the limit."""
        while any(thread.is_alive() and thread not in self._exited for thread in threads):
            left = limit(_remaining(self._stop))
            if left <= 0:
                break
            # A second SIGINT moves the limit, and wakes this thread.
            for signum in self._main_loop.wait(left):
                if signum == signal.SIGINT:
                    self._emit(
                        logging.WARNING,
                        "app.stop_expedited",
                        "second SIGINT: running handlers are not waited for any more",
                    )
        for thread in threads:
            if thread in self._exited:
                thread.join()

    def _close(self, engine: Engine | None, before_leave: Callable[[], None]) -> None:
        try:
            delivery = _remaining(self._stop).delivery
            if engine is not None:
                engine.stop_background(time.monotonic() + delivery)
            # Here, not only in `close_clients`: delivery callbacks are Python's, and need this thread.
            self._shared_producer.close(_remaining(self._stop).delivery)
            before_leave()
            self._record_result(self._stop.close_clients())
        except Exception as error:
            self._emit(logging.ERROR, "app.stop_failed", "the stop failed", error=error)
            self._errors.append(error)
        finally:
            self.on_exit(threading.current_thread())

    def _record_result(self, result: tuple[bool, dict[str, int], int, int, list[tuple[str, Exception]]] | None) -> None:
        if result is None:
            return  # a native thread is still closing them, and is given up
        delivered, by_topic, not_written, unknown, leave_errors = result
        if not delivered:
            undelivered = Undelivered(by_topic, not_written, unknown)
            self._errors.append(
                UndeliveredError(
                    f"stopped with undelivered records: {undelivered}; the offsets of the records that produced them "
                    "were not committed (except those of fire_and_forget): these records will be processed again",
                    undelivered=undelivered,
                )
            )
            self._emit(
                logging.ERROR, "app.not_committed", "%s", self._errors[-1], error=self._errors[-1], traceback=False
            )
        for group, error in leave_errors:
            text = 'group "%s" was not left cleanly: %s'
            fields = {"group": group}
            self._emit(logging.ERROR, "group.not_left", text, group, error, fields=fields, error=error, traceback=False)
            self._errors.append(error)

    def _on_timeout(self, running: Sequence[str], unfinished: Sequence[JobThread]) -> None:
        """Handles the passed deadline."""
        reason = f"not over after shutdown_timeout: {'; '.join(running or [thread.name for thread in unfinished])}"
        if self._may_exit:
            self._force_exit(reason, dump=not running)
        exit_hooks.give_up(thread for thread in unfinished if isinstance(thread, threading.Thread))
        self._errors.insert(0, errors.TimeoutError(f"{reason}. What it has not marked will be processed again"))

    def _force_exit(self, reason: str, dump: bool) -> NoReturn:
        self._emit(logging.ERROR, "app.forced", "forced stop: %s", reason)
        if dump:
            dump_stacks()
        logging.shutdown()
        os._exit(exit_hooks.FORCED_EXIT_STATUS)

    def _describe_running(self, engine: Engine) -> list[str]:
        """Describes running handlers; returns [] after an error, because a description must not end the stop."""
        try:
            return engine.describe_running()
        except Exception as error:
            self._emit(logging.ERROR, "app.stop_failed", "running handlers cannot be described", error=error)
            return []


class _StandbyThread(threading.Thread):
    """Thread that exists from the start of a run, and waits for its function.

    From Python 3.12 on, no thread can be started once the interpreter has begun to end. The stop of an App in the
    background may begin only then.
    """

    def __init__(self) -> None:
        super().__init__(name="grete-standby", daemon=True)
        self._function: Callable[[], None] = _nothing
        self._begun = threading.Event()

    def run(self) -> None:
        """Runs the function of `begin`."""
        self._begun.wait()
        self._function()

    def begin(self, function: Callable[[], None], name: str) -> None:
        """Lets the thread run a function under a name."""
        self.name = name
        self._function = function
        self._begun.set()


def _nothing() -> None:
    pass


class _Remaining:
    """Seconds until the deadlines of a stop that is under way."""

    __slots__ = ("closing", "delivery", "everything", "handlers")

    def __init__(self, handlers: float, delivery: float, closing: float, everything: float) -> None:
        self.handlers, self.delivery, self.closing, self.everything = handlers, delivery, closing, everything


def _remaining(stop: _native.Shutdown) -> _Remaining:
    return _Remaining(*(stop.remaining() or (0.0, 0.0, 0.0, 0.0)))


def _alive(threads: Sequence[JobThread]) -> list[JobThread]:
    return [thread for thread in threads if thread.is_alive()]
