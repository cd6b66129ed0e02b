"""Python stacks of threads and tasks as text, and the dump of all stacks to stderr."""

import contextlib
import faulthandler
import inspect
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

from grete._process.callsite import PACKAGE
from grete._process.node import line_prefix

if TYPE_CHECKING:
    import asyncio


def of_threads(idents: Iterable[int | None]) -> dict[int, str]:
    """Returns the present stacks of these threads, by ident, without threads that have ended."""
    frames = sys._current_frames()  # noqa: SLF001
    stacks = {
        ident: "".join(traceback.format_stack(frames[ident]))
        for ident in idents
        if ident is not None and ident in frames
    }
    # This function's own frame is among them: a reference cycle through `frames` would keep all their locals alive.
    del frames
    return stacks


def of_task(task: "asyncio.Task[Any]") -> str:
    """Returns the task's stack down to what its innermost coroutine awaits; `Task.get_stack` stops at the outermost."""
    entries: list[tuple[FrameType, int]] = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        if inspect.iscoroutine(awaited):
            frame, awaited = awaited.cr_frame, awaited.cr_await
        elif inspect.isgenerator(awaited):
            frame, awaited = awaited.gi_frame, awaited.gi_yieldfrom
        elif inspect.isasyncgen(awaited):
            frame, awaited = awaited.ag_frame, awaited.ag_await
        else:
            break
        if frame is not None:
            entries.append((frame, frame.f_lineno))
    return "".join(traceback.StackSummary.extract(iter(entries)).format())


def without_first_own_frames(stack: str) -> str:
    """Returns the stack of a thread from the first frame on that is neither Grete's nor of `threading`."""
    lines = stack.splitlines(keepends=True)
    frames = [at for at, line in enumerate(lines) if line.startswith('  File "')]
    own = tuple(f'  File "{path}' for path in (PACKAGE, threading.__file__))
    return "".join(lines[next((at for at in frames if not lines[at].startswith(own)), 0) :])


def dump_stacks() -> None:
    """Writes the stacks of all threads to stderr, with the GIL held, so that no frame vanishes meanwhile.

    The processes of a swarm share one stderr and dump all at once, so each line gets the node's name as prefix.
    """
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        prefix = line_prefix()
        if not prefix:
            faulthandler.dump_traceback(file=stderr(), all_threads=True)
            return
        memory = _scratch_file()
        try:
            faulthandler.dump_traceback(file=memory, all_threads=True)
            text = os.pread(memory, os.fstat(memory).st_size, 0)
        finally:
            os.close(memory)
        # Whole lines in one write: lines of several processes mix at the ends of writes only, if at all.
        os.write(stderr(), b"".join(prefix.encode() + line for line in text.splitlines(keepends=True)))


def _scratch_file() -> int:
    """Opens a file that no other process sees. Pythons that are built for an old C library lack memfd_create."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("stacks")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def stderr() -> int:
    """Returns the descriptor of stderr. Python's object for it may be closed, or replaced."""
    try:
        return sys.__stderr__.fileno() if sys.__stderr__ is not None else 2
    except (OSError, ValueError):
        return 2
