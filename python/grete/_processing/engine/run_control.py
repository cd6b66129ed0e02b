"""Interfaces between the run of an App and the threads and loops that run its jobs."""

from typing import Protocol


class JobThread(Protocol):
    """Thread that runs jobs, or a host's event loop."""

    @property
    def name(self) -> str:
        """Name in reports."""

    def is_alive(self) -> bool:
        """Returns whether a job may still run there."""

    def join(self, timeout: float | None = None) -> None:
        """Waits until no job runs there, at most `timeout` seconds; None: no limit."""


class RunControl(Protocol):
    """Interface of the run for workers."""

    def fail(self, error: BaseException) -> None:
        """Stops the App gracefully because of this error."""

    def on_exit(self, thread: JobThread) -> None:
        """Handles a thread that is about to return."""

    @property
    def stopping(self) -> bool:
        """Whether a stop has begun."""
