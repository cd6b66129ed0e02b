"""Watching of Python files, by the optional package watchfiles."""

import sys
import threading
from collections.abc import Callable, Sequence


class Watcher:
    """Thread that calls a function when a Python file in one of the directories changes."""

    def __init__(self, directories: Sequence[str], on_change: Callable[[], None], name: str) -> None:
        """`name`: the command, for messages."""
        self._name = name
        self._directories = directories
        self._on_change = on_change
        self._end = threading.Event()
        # A daemon: the process may end while the thread waits in native code.
        threading.Thread(target=self._watch, name="grete-watch", daemon=True).start()

    def stop(self) -> None:
        """Ends the thread soon."""
        self._end.set()

    def _watch(self) -> None:
        import watchfiles

        python = watchfiles.PythonFilter()
        try:
            for _ in watchfiles.watch(*self._directories, watch_filter=python, stop_event=self._end):
                self._on_change()
        except OSError as error:
            sys.stderr.write(f"{self._name}: files are no longer watched: {error}\n")


def new_watcher(directories: Sequence[str], on_change: Callable[[], None], name: str) -> Watcher | None:
    """Starts a watcher. None, and a hint for the user, if watchfiles is not installed."""
    try:
        import watchfiles  # noqa: F401
    except ImportError:
        sys.stderr.write(f'{name}: the App is not started again when a file changes: pip install "grete[dev]"\n')
        return None
    return Watcher(directories, on_change, name)
