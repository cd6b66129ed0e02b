"""Cache of what is made from a registry's responses: bounded, and each entry is made once.

An entry that is missing is made in a thread of its own. The caller waits for a moment; if the registry is slower, the
caller gets `grete.RetryLater`, and its handler is free for other records while the request goes on. So a slow registry
holds up neither a worker nor an event loop.
"""

import os
import sys
import threading
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, Generic, TypeVar

from grete.errors import RetryLater

T = TypeVar("T")

DEFAULT_SIZE = 1000
"""Entries of a cache; the oldest one makes room for the next."""

# Seconds that a caller waits for an entry that is being made: in a thread, and on an event loop that others need.
_PATIENCE = 1.0
_LOOP_PATIENCE = 0.05
# Seconds until a caller that did not want to wait comes back.
_COME_BACK = 0.2


class Cache(Generic[T]):
    """Entries by key, each made by one call of `make`, even if many threads need it. Failures are not kept.

    Args:
        make: returns the entry of a key; it may take long, and raise.
        size: number of entries.
        life: seconds after which an entry is made again; None: it never changes. An old entry counts until then, and
            while the registry does not answer.
        patience: seconds that a caller waits for a missing entry, outside of event loops.
    """

    def __init__(
        self,
        make: Callable[[Any], T],
        *,
        size: int = DEFAULT_SIZE,
        life: float | None = None,
        patience: float = _PATIENCE,
    ) -> None:
        self._make = make
        self._size = size
        self._life = life
        self._patience = patience
        self._entries: dict[Any, T] = {}
        self._made_at: dict[Any, float] = {}
        self._calls: dict[Any, _Call[T]] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def __call__(self, key: Hashable) -> T:
        """Returns the entry. Raises what `make` raises, and RetryLater if it takes longer than callers wait."""
        entry = self._entries.get(key)
        if entry is None:
            return self._wait_for(key)
        if self._is_old(key):
            self._begin_call(key)
        return entry

    def __len__(self) -> int:
        return len(self._entries)

    def _wait_for(self, key: Hashable) -> T:
        call = self._begin_call(key)
        if not call.done.wait(_LOOP_PATIENCE if _on_event_loop() else self._patience):
            raise RetryLater(_COME_BACK, "the schema registry has not answered yet, and the request goes on")
        if call.error is not None:
            raise call.error.with_traceback(None)
        entry = call.entry
        assert entry is not None
        return entry

    def _begin_call(self, key: Hashable) -> "_Call[T]":
        """Returns the call of `make` that is under way for this key, or begins one."""
        if os.getpid() != self._pid:  # a forked child has none of the threads, and one of them may have held the lock
            self._lock, self._calls, self._pid = threading.Lock(), {}, os.getpid()
        with self._lock:
            call = self._calls.get(key)
            if call is None and (entry := self._entries.get(key)) is not None and not self._is_old(key):
                # The call that made the entry has ended since this thread looked.
                call = _Call()
                call.entry = entry
                call.done.set()
            if call is None:
                call = self._calls[key] = _Call()
                # A daemon, so that a request to a registry that hangs does not keep the process.
                threading.Thread(target=self._run, args=(key, call), name="grete-schema-registry", daemon=True).start()
            return call

    def _is_old(self, key: Hashable) -> bool:
        return self._life is not None and monotonic() - self._made_at.get(key, 0.0) > self._life

    def _run(self, key: Hashable, call: "_Call[T]") -> None:
        try:
            entry = self._make(key)
        except BaseException as error:  # raised in the threads that wait
            call.error = error
            with self._lock:
                self._calls.pop(key, None)
                if key in self._entries:  # an old entry, which counts as long as there is no other
                    self._made_at[key] = monotonic()
        else:
            call.entry = entry
            with self._lock:
                self._calls.pop(key, None)
                self._entries[key] = entry
                self._made_at[key] = monotonic()
                while len(self._entries) > self._size:
                    oldest = next(iter(self._entries))
                    del self._entries[oldest], self._made_at[oldest]
        call.done.set()


class _Call(Generic[T]):
    """One call of `make`, and the threads that wait for it."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.entry: T | None = None
        self.error: BaseException | None = None


def _on_event_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None  # noqa: SLF001 (public, and documented)
