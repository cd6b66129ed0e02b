"""An App inside of a process that belongs to somebody else, a web server for one."""

import os
import threading

from grete.errors import GreteError
from grete.processing.runner import Runner


class Embedded:
    """A run in a thread of its own. Nobody waits for anything but its end, and signals are left alone."""

    def __init__(self, runner: Runner) -> None:
        self.error: BaseException | None = None
        self._runner: Runner | None = runner
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, args=(runner,), name="grete-app", daemon=False)
        self._lock = threading.Lock()
        self._told = False

    @property
    def runner(self) -> Runner | None:
        """What runs, as long as it does; nothing in a forked child, which has none of its threads."""
        return self._runner if self._pid == os.getpid() else None

    def start(self) -> None:
        """Returns once clients and workers run; raises what keeps them from it, and leaves nothing behind then."""
        runner = self._runner
        if runner is None:
            raise AssertionError("started twice")
        try:
            runner.start()
            self._thread.start()
        except BaseException as error:
            runner.fail(error)
            runner.end()
            self._runner = None
            raise

    def stop(self, timeout: float | None) -> None:
        """Returns when it is over, except to threads that the end has to wait for: to them at once."""
        if self._pid != os.getpid():
            return
        runner = self._runner
        if runner is not None:
            runner.stop(timeout)
            caller = threading.current_thread()
            if caller is self._thread or runner.owns(caller):
                return
        self._thread.join()
        with self._lock:
            told, self._told = self._told, True
        error = self.error
        if error is None or told:
            return
        if isinstance(error, Exception):
            raise error
        # A handler that calls sys.exit ends its App, and not the process that the App is a guest of.
        raise GreteError(f"{type(error).__name__} in a handler has ended the App") from error

    def _run(self, runner: Runner) -> None:
        try:
            runner.watch()
        except BaseException as error:
            runner.fail(error)
        try:
            runner.end()
        finally:
            self.error = runner.error
            self._runner = None
