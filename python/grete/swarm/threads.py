"""What must not be there when a process forks: threads, and clients, which have some.

A child has only the one thread that forked; locks that others held stay locked in it for ever.
"""

import logging
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

from grete import _place
from grete.errors import NotForkableError
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.processing import atexit
from grete.swarm import libraries

logger = logging.getLogger("grete")

_WHERE_ELSE = "make it in a handler, in `initialize` of a consumer class, or with self.background"


def check(monitor: Monitor | None = None) -> None:
    """Refuses what would not survive the fork, naming what it is and where it was made; warns of native threads.

    Raises NotForkableError, with all that was found. To be called from the thread that forks.
    """
    if threading.current_thread() is not threading.main_thread():
        raise NotForkableError("a swarm is started from the main thread: Python handles signals in no other")
    found = [*_clients(), *_python_threads()]
    native = _native_threads()
    kafka = {tid: name for tid, name in native.items() if name.startswith("rdk:")}
    if kafka:
        owners = libraries.confluent_clients()
        # What was closed just before is in the list of threads for a moment still; by now it is not.
        if kafka.keys() & _native_threads().keys():
            named = f": {', '.join(owners)}" if owners else ""
            found.append(
                f"a confluent-kafka client is open{named} ({len(kafka)} threads, like {min(kafka.values())!r}): "
                f"its connections do not survive a fork; {_WHERE_ELSE}, or close it"
            )
    if found:
        raise NotForkableError(
            "the nodes cannot be forked:\n- " + "\n- ".join(found) if len(found) > 1 else f"cannot fork: {found[0]}"
        )
    # Grete's own belong to a client, or end just now with one.
    ours = ("rdk:", "grete-")
    others = {tid: name for tid, name in native.items() if not (name.startswith(ours) or libraries.is_harmless(name))}
    if not others:
        return
    text = _warning(sorted(others.values()))
    # A thread that was joined just before is on the list for a moment still.
    if others.keys() & _native_threads().keys():
        fields = {"threads": len(others)}
        tell(monitor, logger, logging.WARNING, "swarm.native_threads", "%s", text, fields=fields)


def _clients() -> list[str]:
    return [
        f"{what} is open{f', made at {place}' if place else ''}: its connections do not survive a fork; "
        + (f"{_WHERE_ELSE}, or close it" if what.startswith("grete.client") else "stop it before")
        for what, place in atexit.still_open()
    ]


def _python_threads() -> list[str]:
    frames = sys._current_frames()  # noqa: SLF001
    known = {thread.ident: thread for thread in threading.enumerate()}
    # A thread that was made below `threading` has a name only once somebody asks for it.
    idents = [ident for ident in {*frames, *known} if ident not in (None, threading.get_ident())]
    found = [_python_thread(known.get(ident), frames.get(ident)) for ident in idents]
    del frames  # ours is among them, and keeps what it holds
    return sorted(found)


def _python_thread(thread: threading.Thread | None, frame: FrameType | None) -> str:
    name = f'thread "{thread.name}"' if thread is not None else "a thread of _thread.start_new_thread"
    target = getattr(thread, "_target", None)
    if target is None and thread is not None and type(thread).run is not threading.Thread.run:
        target = type(thread).run
    what = f" ({_described(target)})" if target is not None else ""
    own = _own_frame(frame)
    now = f", just now at {own}" if own else ""
    return f"{name}{what} runs{now}: no thread survives a fork; {_WHERE_ELSE}"


def _described(target: object) -> str:
    function = getattr(target, "func", target)  # of functools.partial
    code = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{name}, {_place.short(code.co_filename)}:{code.co_firstlineno}" if code is not None else name


def _own_frame(frame: FrameType | None) -> str:
    """Where the thread is in code that somebody can change: the innermost frame outside of the standard library."""
    library = os.path.dirname(threading.__file__) + os.sep  # noqa: PTH120
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((library, "<")) or "site-packages" in name:
            return f"{_place.short(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _native_threads() -> dict[int, str]:
    """Names by thread id, without those that Python knows."""
    known = {os.getpid(), *(thread.native_id for thread in threading.enumerate())}
    found = {}
    for task in Path("/proc/self/task").iterdir():
        tid = int(task.name)
        if tid in known:
            continue
        try:
            found[tid] = (task / "comm").read_text(errors="replace").strip()
        except OSError:
            continue  # it has just ended
    return found


def _warning(names: list[str]) -> str:
    named = ", ".join(f"{count} x {name!r}" if count > 1 else repr(name) for name, count in Counter(names).items())
    count = f"{len(names)} native threads run" if len(names) > 1 else "a native thread runs"
    likely = libraries.likely(names)
    if not likely:
        return (
            f"{count} before the fork ({named}), of a library that we do not know: nodes do not have it, and a "
            "lock that it holds stays locked; if nodes hang, load that library in a handler instead"
        )
    listed = ", or ".join(f"{library.name} ({library.file}): {library.cure}" for library in likely)
    return (
        f"{count} before the fork ({named}) and not in the nodes, where a lock that is held just now stays locked; "
        f"likely of {listed}"
    )
