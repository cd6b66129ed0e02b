"""What `ps` and `top` show."""

from collections.abc import Iterable

from grete._core import Occurred
from grete.errors import ConfigError
from grete.instrumentation.clock import monotonic
from grete.instrumentation.metrics import Family

# Seconds between titles that differ in figures only.
_SELDOM = 1.0


class ProcessTitle:
    """Has the process called what it does: `app.monitor.subscribe(ProcessTitle())`.

        grete: orders [3 of 5 busy, lag 12]
        grete: orders node 2 [quiet, 1 of 5 busy, lag 40]
        grete: orders supervisor [3 of 4 nodes steady]

    Busy are worker threads, the lag is of records. It changes with what happens, and with `statistics.emitted` (each
    `statistics_interval`), but with the latter not more than once a second. When an App stops in a process that goes
    on, its title is again what it was.

    `ps ax`, `ps aux` and `top -c` show it; the short name that `ps -e` shows, of 15 letters, stays as it is. It needs
    setproctitle, and raises ConfigError without: `pip install "grete[process-title]"`.
    """

    def __init__(self) -> None:
        try:
            import setproctitle
        except ImportError:
            raise ConfigError(
                'ProcessTitle needs setproctitle: pip install "grete[process-title]"', setting="process-title"
            ) from None
        self._library = setproctitle
        self._before: str | None = None
        self._who = ""
        self._state = ""
        self._figures = ""
        self._due = 0.0
        self._nodes = 0
        self._steady: set[int] = set()

    def on_app_running(self, occurred: Occurred) -> None:
        """A run begins."""
        node = occurred["node"]
        if node is None and self._before is None:
            self._before = self._library.getproctitle()
        self._who = occurred["app"] if node is None else f"{occurred['app']} node {node}"
        self._state, self._figures, self._due = "", "", 0.0
        self._show("running")

    def on_statistics_emitted(self, occurred: Occurred) -> None:
        """Figures."""
        now = monotonic()
        if now >= self._due:
            self._due = now + _SELDOM
            statistics = occurred["statistics"]
            figures = [f"{statistics['busy']} of {statistics['workers']} busy"]
            if statistics["loop_jobs"]:
                figures.append(f"{statistics['loop_jobs']} on the loop")
            lag = _lag(occurred["metrics"])
            if lag is not None:
                figures.append(f"lag {lag:.0f}")
            self._figures = ", ".join(figures)
            self._show()

    def on_app_quiet(self, _: Occurred) -> None:
        """It hands out no more records."""
        self._state = "quiet"
        self._show()

    def on_app_stopping(self, _: Occurred) -> None:
        """A signal has begun the stop."""
        self._state = "stopping"
        self._show()

    def on_app_stopped(self, _: Occurred) -> None:
        """The stop is over; a node's process is, too."""
        before, self._before = self._before, None
        if before is not None:
            self._set(before)

    def on_swarm_starting(self, occurred: Occurred) -> None:
        """This is the supervisor."""
        self._who, self._nodes = f"{occurred['app']} supervisor", occurred["nodes"]
        self._show_nodes()

    def on_swarm_node_steady(self, occurred: Occurred) -> None:
        """A node has its place."""
        self._steady.add(occurred["node"])
        self._show_nodes()

    def on_swarm_node_unsteady(self, occurred: Occurred) -> None:
        """It has lost it."""
        self._steady.discard(occurred["node"])
        self._show_nodes()

    def on_swarm_node_died(self, occurred: Occurred) -> None:
        """It is gone."""
        self.on_swarm_node_unsteady(occurred)

    def on_swarm_quiet(self, _: Occurred) -> None:
        """No node hands out records."""
        self._state = "quiet"
        self._show_nodes()

    def on_swarm_stopping(self, _: Occurred) -> None:
        """All nodes are asked to stop."""
        self._state = "stopping"
        self._show_nodes()

    def _show_nodes(self) -> None:
        self._figures = f"{len(self._steady)} of {self._nodes} nodes steady"
        self._show()

    def _show(self, otherwise: str = "") -> None:
        told = ", ".join(part for part in (self._state, self._figures) if part)
        self._set(f"grete: {self._who} [{told or otherwise}]")

    def _set(self, title: str) -> None:
        # It gives the thread that calls it a new name, too: 15 letters, and not all threads are ours.
        thread = self._library.getthreadtitle()
        self._library.setproctitle(title)
        self._library.setthreadtitle(thread)


def _lag(metrics: Iterable[Family]) -> float | None:
    return next((family.total() for family in metrics if family.name == "grete_lag_records"), None)
