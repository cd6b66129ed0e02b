"""What the nodes of a test do instead of running an App. Each ends by itself, or by the signals that a node gets."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from grete import _native
from grete._process.node import BLOCKED_SIGNALS, NodeContext, unblock_signals
from grete._processing.signals import Signals
from tests.unit.inherited_state import fork_child, inherited_state, wait_exit

REPORT: dict[str, object] = {
    "v": 1, "seq": 0, "uptime": 1.0, "ready": True, "quiet": False, "stopping": False, "gil_wait": 0.0,
    "loop_wait": None, "rss": None, "pss": None, "groups": [],
    "lanes": {"idle": 0, "ready": 0, "running": 0, "paused": 0, "failed": 0, "leaving": 0},
    "lag": None, "oldest": None, "overdue": [], "stalled": [], "unmoved": [], "missing": [], "failed": [], "jobs": 0,
    "records": 0, "failures": 0, "dead_letters": 0, "workers": 1, "dropped": 0,
}  # fmt: skip


def say(**what: object) -> None:
    """One line of JSON to stdout, whole: many processes write to that pipe."""
    os.write(1, json.dumps({**what, "pid": os.getpid()}).encode() + b"\n")


def report(node: NodeContext, ready: bool = True) -> None:
    """To the supervisor: all is well."""
    text = json.dumps(REPORT | {"ready": ready}).encode()
    os.write(node.report_pipe, len(text).to_bytes(4, "big") + text)


def obey(node: NodeContext) -> None:
    """Reports, says which signals come, and ends with TERM or INT."""
    say(up=node.id)
    report(node)
    while True:
        got = signal.sigtimedwait(BLOCKED_SIGNALS, node.report_interval)
        if got is None:
            report(node)
            continue
        say(node=node.id, signal=signal.Signals(got.si_signo).name)
        if got.si_signo in (signal.SIGTERM, signal.SIGINT):
            return


def settle(node: NodeContext) -> None:
    """As `obey`, and is steady a while after it has said that it is not."""
    report(node, ready=False)
    signal.sigtimedwait((), node.report_interval)
    obey(node)


def post(node: NodeContext) -> None:
    """As `obey`, and posts metrics all the time: whole when all numbers in a text are the same."""
    say(up=node.id, board=node.metrics_segment is not None)
    report(node)
    reported = time.monotonic()
    for number in itertools.count():
        if node.metrics_segment is not None:
            lines = (f'grete_jobs_total{{handler="h{at}"}} {number}\n' for at in range(number % 40 + 1))
            node.metrics_segment.publish(f"grete_live 1\n{''.join(lines)}".encode())
        got = signal.sigtimedwait(BLOCKED_SIGNALS, 0.001)
        if got is not None and got.si_signo in (signal.SIGTERM, signal.SIGINT):
            return
        if time.monotonic() >= reported + node.report_interval:
            report(node)
            reported = time.monotonic()


def deface(node: NodeContext) -> None:
    """As `obey`, and posts what is not its to say, or nonsense."""
    if node.metrics_segment is not None:
        node.metrics_segment.publish(b'grete_live{node="7"} 1\n' if node.id else os.urandom(100_000))
    obey(node)


def die(node: NodeContext) -> None:
    """Fails at once."""
    os._exit(7)


def die_late(node: NodeContext) -> None:
    """Fails once it is known to live: at the first signal."""
    say(up=node.id)
    signal.sigwait(BLOCKED_SIGNALS)
    os._exit(7)


def ignore(node: NodeContext) -> None:
    """Reports, and ends with nothing but KILL."""
    say(up=node.id)
    while True:
        report(node)
        signal.sigtimedwait([], node.report_interval)


def wedge(node: NodeContext) -> None:
    """Keeps the interpreter's lock in C code, forever."""
    say(up=node.id)
    ctypes.PyDLL(None).sleep(1_000_000)


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
    )]  # fmt: skip


def allocate(node: NodeContext) -> None:
    """Says how much of 4 MiB malloc maps by itself, after larger blocks were freed."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _MallocInfo
    for _ in range(2):
        bytes(16 << 20)
    before = mallinfo().hblkhd
    block = bytes(4 << 20)
    say(up=node.id, mapped=mallinfo().hblkhd - before, size=len(block))
    obey(node)


def descriptors(node: NodeContext) -> None:
    """Says what it has open, and writes a line to stderr."""
    opened = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            opened[int(link.name)] = str(link.readlink())
        except OSError:
            continue  # the one that listed them
    say(node=node.id, fds=opened, pipe=node.report_pipe, group=os.getpgrp(), wakeup=signal.set_wakeup_fd(-1))
    os.write(2, b"hello\n")
    obey(node)


def close_pipe(node: NodeContext) -> None:
    """Lives on without its pipe."""
    say(up=node.id)
    os.close(node.report_pipe)
    signal.sigwait(BLOCKED_SIGNALS)


def garbage(node: NodeContext) -> None:
    """Reports what is no report."""
    say(up=node.id)
    os.write(node.report_pipe, b"GET / HTTP/1.1\r\n\r\n")
    signal.sigwait(BLOCKED_SIGNALS)


def orphan(node: NodeContext) -> None:
    """Leaves a child of its own behind, which ends later than it."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.close(write)
        os.read(read, 1)  # until the node is gone
        os._exit(3)
    say(up=node.id)
    signal.sigwait(BLOCKED_SIGNALS)


def parent(node: NodeContext) -> None:
    """Has children before and after it handles its signals; one dies of a signal; one outlives the node's pipe."""
    say(up=node.id)
    report(node)
    wait_exit(fork_child(lambda: say(child="before", **inherited_state())))
    with Signals(_native.Shutdown(_native.Dispatcher(), 5.0)):
        unblock_signals()
        wait_exit(fork_child(lambda: say(child="after", **inherited_state())))
        pid = fork_child(lambda: signal.sigtimedwait([], 20))
        os.kill(pid, signal.SIGTERM)
        say(child="killed", status=wait_exit(pid))
        fork_child(lambda: signal.sigtimedwait([], 20))
        os.close(node.report_pipe)
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
        signal.sigwait(BLOCKED_SIGNALS)


# How a node ends


def at_the_end(node: NodeContext) -> None:
    """What the interpreter does at its end, in that order."""

    def thread() -> None:
        threading.main_thread().join(0.05)
        say(node=node.id, end="thread")

    atexit.register(lambda: say(node=node.id, end="atexit"))
    threading.Thread(target=thread).start()
    sys.stdout.write('{"end": "buffered"}\n')
    say(node=node.id, end="body")


def fail(node: NodeContext) -> NoReturn:
    """An error of the App."""
    raise RuntimeError(f"the app of node {node.id} is broken")


def leave_1(node: NodeContext) -> NoReturn:
    """As a handler that calls sys.exit()."""
    sys.exit("that is all")


def leave_2(node: NodeContext) -> NoReturn:
    """The status of a stop by force."""
    sys.exit(2)


def leave_9(node: NodeContext) -> NoReturn:
    """A status that means nothing."""
    sys.exit(9)


def interrupt(node: NodeContext) -> NoReturn:
    """What Python's own handler of SIGINT raises."""
    raise KeyboardInterrupt


BODIES: dict[str, Callable[[NodeContext], None]] = {
    body.__name__: body
    for body in (
        obey, settle, post, deface, die, die_late, ignore, wedge, allocate, descriptors, close_pipe, garbage, orphan,
        parent, at_the_end, fail, leave_1, leave_2, leave_9, interrupt,
    )
}  # fmt: skip
