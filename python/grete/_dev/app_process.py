"""App of `grete dev` and `grete run --reload`: `grete run` in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence


class AppProcess:
    """Process of `grete run`, which is started again after changes.

    The process belongs to the process group of its parent, so that a debugger in it can read from the terminal.
    Ctrl-C therefore reaches both. The SIGTERM that follows from here is no second stop for the App, as a SIGINT after
    it would be.
    """

    def __init__(self, words: Sequence[str], name: str, program: str | None = None) -> None:
        """`words`: those of `grete run`. `name`: the parent's command, for messages. `program`: file that is run with
        the words `grete run ...`, like Django's manage.py; None: `grete` itself.
        """
        self._words = list(words)
        self._name = name
        self._program = program
        self._bootstrap: str | None = None
        self._kafka: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._wants_restart = False
        self.environment: dict[str, str] = {}
        """Variables for the App, unless the environment has them."""
        self.restarts = False
        """Whether a file that changes starts the App again, so that its end is not the end of the command."""

    def start(self, bootstrap_servers: str | None, kafka: Mapping[str, str] | None = None) -> None:
        """Starts the App on these brokers, whatever its own settings say; None: on those of its settings. `kafka`:
        further Kafka settings that the brokers need.
        """
        self._bootstrap = bootstrap_servers
        self._kafka = dict(kafka or {})
        self._wants_restart = False
        brokers = [] if bootstrap_servers is None else ["--bootstrap", bootstrap_servers]
        program = [] if self._program is None else ["--program", self._program]
        pairs = [word for name, value in self._kafka.items() for word in ("-k", f"{name}={value}")]
        words = [*program, "run", *brokers, *pairs, *self._words]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "grete._cli.app_child", str(os.getpid()), *words], env=self.environment | os.environ
        )

    def restart(self) -> None:
        """Stops the App, and starts it again when it has ended."""
        self._wants_restart = True
        self.stop()

    def stop(self, by_force: bool = False) -> None:
        """Begins to stop the App. `by_force`: at once."""
        if self._process is not None:
            (self._process.kill if by_force else self._process.terminate)()

    def has_pending(self, number: int) -> bool:
        """Returns whether a signal waits for the App, which has no processor at present or is stopped."""
        if self._process is None:
            return False
        try:
            with open(f"/proc/{self._process.pid}/status", "rb") as status:  # noqa: PTH123
                pending = [int(line.split()[1], 16) for line in status if line.startswith((b"SigPnd:", b"ShdPnd:"))]
        except OSError:
            return False  # it has ended
        return any(bits >> (number - 1) & 1 for bits in pending)

    def kill(self) -> None:
        """Ends the App at once, if it runs, and waits for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def reap(self, *, restarts: bool) -> int | None:
        """Returns the exit status if the App has ended and is not started again; None otherwise.

        `restarts`: it may be started again. An App without a process waits for a file to change.
        """
        status = 0 if self._process is None else self._process.poll()
        if status is None:
            return None
        ended = self._process is not None
        self._process = None
        if not restarts:
            return _exit_status(status)
        if self._wants_restart:
            sys.stderr.write(f"{self._name}: a file has changed; the App starts again\n")
            self.start(self._bootstrap, self._kafka)
            return None
        if not self.restarts:
            return _exit_status(status)
        if ended:
            sys.stderr.write(f"{self._name}: the App has ended with status {_exit_status(status)}; ")
            sys.stderr.write("it starts again when a file changes\n")
        return None


def _exit_status(status: int) -> int:
    """Returns the status as a shell reports it: 128 and the number of the signal that ended the process."""
    return 128 - status if status < 0 else status
