"""Python stacks of threads and tasks, as text."""

import inspect
import sys
import traceback
from collections.abc import Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


def of_threads(idents: Iterable[int | None]) -> dict[int, str]:
    """What these threads run just now, by ident; those that run nothing are left out."""
    frames = sys._current_frames()  # noqa: SLF001
    stacks = {
        ident: "".join(traceback.format_stack(frames[ident]))
        for ident in idents
        if ident is not None and ident in frames
    }
    # Our own frame is among them: a circle through this variable would keep all that any of them holds.
    del frames
    return stacks


def of_task(task: "asyncio.Task[Any]") -> str:
    """Down to what the innermost coroutine awaits; `Task.get_stack` stops at the outermost."""
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
