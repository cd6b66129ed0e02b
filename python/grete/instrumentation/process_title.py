"""Listener that sets the process title, as `ps` and `top` show it."""

from collections.abc import Iterable

from grete._native import Event, one_line
from grete._plural import counted
from grete.errors import ConfigError
from grete.instrumentation.clock import monotonic
from grete.instrumentation.metrics import MetricFamily

# Minimum seconds between titles that differ only in numbers.
_MIN_INTERVAL = 1.0


class ProcessTitle:
    """Sets the title of the process to its state: `app.monitor.subscribe(ProcessTitle())`.

        grete: orders [3 of 5 busy, lag 12]
        grete: orders node 2 [quiet, 1 of 5 busy, lag 40]
        grete: orders supervisor [3 of 4 nodes ready]

    "busy" counts worker threads, the lag counts records. The title is updated on events, and on `statistics.emitted`
    (each `statistics_interval`), by the latter at most once a second. When an App stops in a process that goes on, the
    original title is restored.

    `ps ax`, `ps aux` and `top -c` show the title; the short name of 15 letters that `ps -e` shows does not change.
    Needs setproctitle; raises ConfigError without it: `pip install "grete[process-title]"`.
    """

    def __init__(self) -> None:
        try:
            import setproctitle
        except ImportError:
            raise ConfigError(
                'ProcessTitle needs setproctitle: pip install "grete[process-title]"', setting="process-title"
            ) from None
        self._library = setproctitle
        self._original_title: str | None = None
        self._subject = ""
        self._state = ""
        self._numbers = ""
        self._next_at = 0.0
        self._node_count = 0
        self._ready_nodes: set[int] = set()

    def on_app_running(self, occurred: Event) -> None:
        """Begins with the title of a new run."""
        node = occurred["node"]
        if node is None and self._original_title is None:
            self._original_title = self._library.getproctitle()
        self._subject = occurred["app"] if node is None else f"{occurred['app']} node {node}"
        self._state, self._numbers, self._next_at = "", "", 0.0
        self._show("running")

    def on_statistics_emitted(self, occurred: Event) -> None:
        """Updates the numbers."""
        now = monotonic()
        if now >= self._next_at:
            self._next_at = now + _MIN_INTERVAL
            statistics = occurred["statistics"]
            numbers = [f"{statistics['busy']} of {statistics['workers']} busy"]
            if statistics["loop_jobs"]:
                numbers.append(f"{statistics['loop_jobs']} on the loop")
            lag = _lag(occurred["metrics"])
            if lag is not None:
                numbers.append(f"lag {lag:.0f}")
            self._numbers = ", ".join(numbers)
            self._show()

    def on_app_quiet(self, _: Event) -> None:
        """Shows that no more records are handed out."""
        self._state = "quiet"
        self._show()

    def on_app_stopping(self, _: Event) -> None:
        """Shows the stop."""
        self._state = "stopping"
        self._show()

    def on_app_stopped(self, _: Event) -> None:
        """Restores the original title. A node's process ends anyway."""
        before, self._original_title = self._original_title, None
        if before is not None:
            self._set(before)

    def on_swarm_starting(self, occurred: Event) -> None:
        """Begins with the supervisor's title."""
        self._subject, self._node_count = f"{occurred['app']} supervisor", occurred["nodes"]
        self._show_nodes()

    def on_swarm_node_ready(self, occurred: Event) -> None:
        """Counts a ready node."""
        self._ready_nodes.add(occurred["node"])
        self._show_nodes()

    def on_swarm_node_not_ready(self, occurred: Event) -> None:
        """Removes a node that is not ready any more."""
        self._ready_nodes.discard(occurred["node"])
        self._show_nodes()

    def on_swarm_node_died(self, occurred: Event) -> None:
        """Removes a node that has died."""
        self.on_swarm_node_not_ready(occurred)

    def on_swarm_quiet(self, _: Event) -> None:
        """Shows that no node hands out records."""
        self._state = "quiet"
        self._show_nodes()

    def on_swarm_stopping(self, _: Event) -> None:
        """Shows the stop of the swarm."""
        self._state = "stopping"
        self._show_nodes()

    def _show_nodes(self) -> None:
        self._numbers = f"{len(self._ready_nodes)} of {counted(self._node_count, 'node')} ready"
        self._show()

    def _show(self, default: str = "") -> None:
        status = ", ".join(part for part in (self._state, self._numbers) if part)
        self._set(one_line(f"grete: {self._subject} [{status or default}]"))

    def _set(self, title: str) -> None:
        # setproctitle() renames the calling thread, too (15 letters), and this may be a thread of the user.
        thread = self._library.getthreadtitle()
        self._library.setproctitle(title)
        self._library.setthreadtitle(thread)


def _lag(metrics: Iterable[MetricFamily]) -> float | None:
    return next((family.total() for family in metrics if family.name == "grete_lag_records"), None)
