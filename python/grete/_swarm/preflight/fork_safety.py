"""Checks before a fork: threads, and clients, which have threads, do not survive it.

A child has only the thread that forked. Locks that other threads held stay locked in the child.
"""

import logging
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

from grete._config.layers import Config
from grete._plural import counted
from grete._process import callsite, exit_hooks
from grete._swarm.preflight import native_libraries
from grete._swarm.status import memory
from grete.errors import ConfigError, NotForkableError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

_ALTERNATIVES = "make it in a handler, in `initialize` of a consumer class, or with self.background"


def check_forkable(monitor: Monitor | None = None) -> None:
    """Refuses objects that would not survive the fork, with their names and places; warns of native threads.

    Raises NotForkableError with everything that was found. Must be called from the thread that forks.
    """
    if threading.current_thread() is not threading.main_thread():
        raise NotForkableError("a swarm is started from the main thread: Python handles signals in no other")
    found = [*_open_clients(), *_python_threads()]
    native = _native_threads()
    kafka = {tid: name for tid, name in native.items() if name.startswith("rdk:")}
    if kafka:
        owners = native_libraries.find_confluent_clients()
        # Threads of a client that was just closed may still be listed for a moment; the second look excludes them.
        if kafka.keys() & _native_threads().keys():
            named = f": {', '.join(owners)}" if owners else ""
            found.append(
                f"a confluent-kafka client is open{named} ({counted(len(kafka), 'thread')}, like "
                f"{min(kafka.values())!r}): its connections do not survive a fork; {_ALTERNATIVES}, or close it"
            )
    if found:
        raise NotForkableError(
            "the nodes cannot be forked:\n- " + "\n- ".join(found) if len(found) > 1 else f"cannot fork: {found[0]}"
        )
    # Grete's own threads belong to a client that was reported above, or are just ending.
    ours = ("rdk:", "grete-")
    others = {
        tid: name for tid, name in native.items() if not (name.startswith(ours) or native_libraries.is_harmless(name))
    }
    if not others:
        return
    text = _native_thread_warning(sorted(others.values()))
    # A thread that was just joined may still be listed for a moment.
    if others.keys() & _native_threads().keys():
        fields = {"threads": len(others)}
        log_and_emit(monitor, logger, logging.WARNING, "swarm.native_threads", "%s", text, fields=fields)


def check_memory_limit(config: Config) -> None:
    """Refuses a `max_rss` that nodes would exceed with their inherited memory. Called between preloads and fork."""
    limit = config.swarm_values["max_rss"]
    now = memory.read_rss(os.getpid())
    if limit.value is None or now is None or now < limit.value:
        return
    raise ConfigError(
        f"swarm.max_rss (from {limit.origin}) is {limit.value >> 20} MiB, and the supervisor has {now >> 20} MiB with "
        "what is loaded before the fork: each node begins with as much (shared pages count); allow that, and what a "
        "node needs for itself",
        setting="swarm.max_rss",
        origin=limit.origin,
    )


def _open_clients() -> list[str]:
    return [
        f"{what} is open{f', made at {place}' if place else ''}: its connections do not survive a fork; "
        + (f"{_ALTERNATIVES}, or close it" if what.startswith("grete.client") else "stop it before")
        for what, place in exit_hooks.still_open()
    ]


def _python_threads() -> list[str]:
    frames = sys._current_frames()  # noqa: SLF001
    known = {thread.ident: thread for thread in threading.enumerate()}
    # A thread that was started below `threading` has a name only after current_thread() was called in it.
    idents = [ident for ident in {*frames, *known} if ident not in (None, threading.get_ident())]
    found = [_python_thread(known.get(ident), frames.get(ident)) for ident in idents]
    del frames  # this function's frame is among them, and keeps its locals alive
    return sorted(found)


def _python_thread(thread: threading.Thread | None, frame: FrameType | None) -> str:
    name = f'thread "{thread.name}"' if thread is not None else "a thread of _thread.start_new_thread"
    target = getattr(thread, "_target", None)
    if target is None and thread is not None and type(thread).run is not threading.Thread.run:
        target = type(thread).run
    what = f" ({_describe_target(target)})" if target is not None else ""
    own = _user_frame(frame)
    now = f", just now at {own}" if own else ""
    return f"{name}{what} runs{now}: no thread survives a fork; {_ALTERNATIVES}"


def _describe_target(target: object) -> str:
    function = getattr(target, "func", target)  # of functools.partial
    code = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{name}, {callsite.relative_path(code.co_filename)}:{code.co_firstlineno}" if code is not None else name


def _user_frame(frame: FrameType | None) -> str:
    """Returns the place of the thread in editable code: its innermost frame outside of the standard library."""
    library = os.path.dirname(threading.__file__) + os.sep  # noqa: PTH120
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((library, "<")) or "site-packages" in name:
            return f"{callsite.relative_path(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _native_threads() -> dict[int, str]:
    """Returns the names of native threads by thread id, without Python's threads."""
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


def _native_thread_warning(names: list[str]) -> str:
    named = ", ".join(f"{count} x {name!r}" if count > 1 else repr(name) for name, count in Counter(names).items())
    count = f"{len(names)} native threads run" if len(names) > 1 else "a native thread runs"
    likely = native_libraries.guess_owners(names)
    if not likely:
        return (
            f"{count} before the fork ({named}), of an unknown library: nodes do not have it, and a lock that it holds "
            "stays locked; if nodes hang, load that library in a handler instead"
        )
    listed = ", or ".join(f"{library.name} ({library.file}): {library.remedy}" for library in likely)
    return (
        f"{count} before the fork ({named}) and not in the nodes, where a lock that is held just now stays locked; "
        f"likely of {listed}"
    )
