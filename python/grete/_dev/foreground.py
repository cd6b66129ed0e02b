"""Brokers, or an App, or both in the foreground, until a signal."""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grete._dev.app_process import AppProcess
    from grete._dev.watcher import Watcher
    from grete._dev.web_process import WebProcess
    from grete.broker import Broker

# Byte in the pipe for "a file has changed". Signals have numbers from 1 on.
FILE_CHANGED = 0
# Seconds for the SIGINT that Ctrl-C also sends to the App, before the App gets a SIGTERM. The handlers of signals that
# wait together run in the wrong order, and a SIGINT after a SIGTERM does not let the App finish its handlers.
_INTERRUPT_TIME = 0.3


class Foreground:
    """Main loop of `grete dev` and `grete run --reload`.

    It waits for signals, changed files, the end of the App and the end of the brokers.
    """

    def __init__(self, broker: "Broker | None", name: str = "grete dev", user: str | None = None) -> None:
        """`name`: the command, for messages. `user`: one that may log in to the brokers; None: there are no logins."""
        self._broker = broker
        self._name = name
        self._user = user
        self._app: AppProcess | None = None
        self._web_port: int | None = None
        self._web: WebProcess | None = None
        self._watched: list[str] = []
        self._handlers: dict[int, object] = {}
        self._stops = 0
        self._terminate_at: float | None = None
        self._status = 0

    def add_app(self, words: Sequence[str], watched: Sequence[str], program: str | None = None) -> None:
        """Runs an App. `words`: those of `grete run`. `watched`: directories whose Python files start it again.
        `program`: see `AppProcess`.
        """
        from grete._dev.app_process import AppProcess

        self._app = AppProcess(words, self._name, program)
        self._watched = list(watched)

    def add_web(self, port: int) -> None:
        """Serves `grete web` on a port (0: a free one) beside the brokers; the App reports to it."""
        self._web_port = port

    def run(self) -> int:
        """Runs until a signal, the end of the App or of the brokers. Returns the exit status."""
        reader, writer = os.pipe()
        try:
            os.set_blocking(reader, False)
            os.set_blocking(writer, False)
            self._install(writer)
            with self._broker or contextlib.nullcontext():
                if self._broker is not None:
                    self._announce(self._broker)
                self._start_web()
                watcher = self._start_app(writer)
                try:
                    self._loop(reader)
                finally:
                    if watcher is not None:
                        watcher.stop()
                    if self._app is not None:
                        self._app.kill()
                    if self._web is not None:
                        self._web.stop()
            return self._status
        finally:
            self._restore()
            os.close(reader)
            os.close(writer)

    def _install(self, writer: int) -> None:
        # A signal during the start waits in the pipe, so that the start ends first and everything is cleaned up.
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup, or a background job of a script
                self._handlers[number] = signal.signal(number, _ignore)
        self._handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _ignore)

    def _restore(self) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _announce(self, broker: "Broker") -> None:
        named = ", ".join(f"{name} ({partitions})" for name, partitions in broker.topics().items())
        topics = named or "none; other clients create those that they ask for"
        lines = [f"brokers: {broker.bootstrap_servers}", f"topics:  {topics}"]
        if broker.client_settings:
            lines.append("clients: " + " ".join(f"{name}={value}" for name, value in broker.client_settings.items()))
        if self._user is not None:
            login = f"sasl.mechanism=SCRAM-SHA-512 sasl.username={self._user}"
            lines.append(f"login:   {login}, with the password of --sasl")
        _say("\n".join(lines))

    def _start_web(self) -> None:
        if self._web_port is None or self._broker is None:
            return
        from grete._dev.web_process import REPORTS, WebProcess

        self._web = WebProcess(self._web_port, self._broker)
        if self._app is not None:
            self._app.environment = REPORTS

    def _start_app(self, writer: int) -> "Watcher | None":
        if self._app is None:
            return None
        watcher = None
        if self._watched:
            from grete._dev.watcher import new_watcher

            watcher = new_watcher(self._watched, lambda: _notify(writer), self._name)
        self._app.restarts = watcher is not None
        broker = self._broker
        if broker is None:
            self._app.start(None)
        else:
            self._app.start(broker.bootstrap_servers, broker.client_settings)
        return watcher

    def _loop(self, reader: int) -> None:
        broker = self._broker
        end = broker.end_fd() if broker is not None else -1
        waiting = [reader] if broker is None else [reader, end]
        while True:
            left = None if self._terminate_at is None else max(self._terminate_at - time.monotonic(), 0.0)
            ready, _, _ = select.select(waiting, [], [], left)
            if broker is not None and end in ready:
                waiting.remove(end)
                sys.stderr.write(f"Error: the brokers have ended: {broker.failure()}\n")
                self._status = 1
                self._stop()
            if reader in ready:
                for byte in os.read(reader, 4096):
                    self._on_byte(byte)
            self._terminate_in_time()
            if self._is_done():
                return

    def _on_byte(self, byte: int) -> None:
        if byte == FILE_CHANGED:
            if self._app is not None and not self._stops:
                self._app.restart()
        elif byte != signal.SIGCHLD and byte in self._handlers:
            self._stop(byte)

    def _stop(self, number: int = signal.SIGTERM) -> None:
        """Begins to stop: the App first, because it commits on the brokers. The second time ends it by force.

        `number`: signal that asks for the stop.
        """
        self._stops += 1
        if self._app is None:
            return
        if self._stops == 1 and number == signal.SIGINT:
            self._terminate_at = time.monotonic() + _INTERRUPT_TIME
        else:
            self._terminate_at = None
            self._app.stop(by_force=self._stops > 1)

    def _terminate_in_time(self) -> None:
        """Asks the App to stop after a SIGINT that only this process may have got."""
        if self._app is None or self._terminate_at is None or time.monotonic() < self._terminate_at:
            return
        if self._app.has_pending(signal.SIGINT):
            self._terminate_at = time.monotonic() + _INTERRUPT_TIME
        else:
            self._terminate_at = None
            self._app.stop()

    def _is_done(self) -> bool:
        if self._app is None:
            return self._stops > 0
        status = self._app.reap(restarts=not self._stops)
        if status is None:
            return False
        if not self._stops:
            self._status = status
        return True


def _notify(writer: int) -> None:
    try:
        os.write(writer, bytes([FILE_CHANGED]))
    except OSError:
        pass  # full: other changes wait; closed: the command ends


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Handles a signal in the main loop: its number is in the pipe."""


def _say(text: str) -> None:
    try:
        print(text, flush=True)
    except (OSError, ValueError):
        pass  # standard output is closed; the brokers are of use all the same
