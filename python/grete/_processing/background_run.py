"""Run of an App inside a host process, for example a web server."""

import os
import threading

from grete._processing.runner import Runner
from grete.errors import GreteError


class BackgroundRun:
    """A run in a thread of its own. Leaves signals alone. Callers can start it, stop it and wait for its end."""

    def __init__(self, runner: Runner) -> None:
        self.error: BaseException | None = None
        self._runner: Runner | None = runner
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, args=(runner,), name="grete-app", daemon=False)
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._error_raised = False

    @property
    def runner(self) -> Runner | None:
        """The runner while it runs; None afterwards, and in a forked child, which lacks its threads."""
        return self._runner if self._pid == os.getpid() else None

    def start(self) -> None:
        """Returns once clients and workers run. Raises the error that prevents that, with everything closed again."""
        runner = self._runner
        if runner is None:
            raise AssertionError("started twice")
        try:
            runner.start()
            self._thread.start()
        except BaseException as error:
            runner.fail(error)
            try:
                runner.end()
            finally:
                self._runner = None
                self._over.set()
            raise

    def stop(self, timeout: float | None) -> None:
        """Stops the run and returns at its end. Returns at once in a thread that the end has to wait for."""
        if self._pid != os.getpid():
            return
        runner = self._runner
        if runner is not None:
            runner.stop(timeout)
            caller = threading.current_thread()
            if caller is self._thread or runner.owns(caller):
                return
        self._over.wait()  # also during the start, which has not begun the thread yet
        if self._thread.ident is not None:
            self._thread.join()
        with self._lock:
            already_raised, self._error_raised = self._error_raised, True
        error = self.error
        if error is None or already_raised:
            return
        if isinstance(error, Exception):
            raise error
        # sys.exit in a handler ends the App, but not the host process.
        raise GreteError(f"{type(error).__name__} in a handler has ended the App") from error

    def _run(self, runner: Runner) -> None:
        try:
            runner.run_until_stop()
        except BaseException as error:
            runner.fail(error)
        try:
            runner.end()
        finally:
            self.error = runner.error
            self._runner = None
            self._over.set()
