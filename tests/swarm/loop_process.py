"""`python -m tests.swarm.loop_process BODY`: a supervisor whose nodes run BODY. Its events are lines of JSON."""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import json
import logging
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from grete._process.node import NodeContext
from grete._swarm.commands import CommandHandler
from grete._swarm.event_loop import SupervisorLoop
from grete._swarm.node.inherited_fds import InheritedFds
from grete._swarm.node.main import run_child
from grete._swarm.policy.limits import Limits
from grete._swarm.policy.manager import Manager
from grete.instrumentation import Event, Monitor
from tests.swarm.node_bodies import BODIES, say
from tests.unit.inherited_state import actions

_PR_SET_CHILD_SUBREAPER = 36


class Events(logging.Handler):
    """What is logged, and when."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = {
            name: value
            for name, value in vars(record).items()
            if name not in _PLAIN and isinstance(value, (str, int, float, list, type(None)))
        }
        error = record.exc_info[1] if record.exc_info else None
        line = {**fields, "at": time.monotonic(), "text": record.getMessage(), "error": repr(error), "by": os.getpid()}
        os.write(1, json.dumps(line).encode() + b"\n")


_PLAIN = set(vars(logging.makeLogRecord({})))


def main() -> None:
    """Parses, runs, says how it ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("body", choices=BODIES)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--plain", action="store_true", help="without pidfds")
    parser.add_argument("--limits", type=json.loads, default={})
    parser.add_argument("--deaths", type=int, help="stop after so many")
    parser.add_argument("--subreaper", action="store_true")
    parser.add_argument("--twist", help="module:function, called with the loop before it runs")
    words = parser.parse_args()
    logging.getLogger().addHandler(Events())
    logging.getLogger().setLevel(logging.INFO)
    if words.subreaper:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    supervisor = os.getpid()
    body = BODIES[words.body]
    monitor = Monitor()

    def emitted(occurred: Event) -> None:
        say(emitted=occurred.name, fields=sorted(occurred.payload), by=os.getpid())

    for name in monitor:
        monitor.subscribe(name, emitted)

    def run(node: int, pipe: int, inherited: InheritedFds) -> NoReturn:
        run_child(NodeContext(node, words.nodes, pipe, 1.0, supervisor), body, inherited, monitor)

    manager: Manager = Manager(words.nodes, Limits(**{"backoff_first": 0.02, "backoff_cap": 0.02, **words.limits}))
    if words.deaths:
        manager = _stopping_after(manager, words.deaths)
    loop = SupervisorLoop(manager, CommandHandler(manager), run, no_pidfd=words.plain or None, monitor=monitor)
    say(supervisor=supervisor, open=_open(), actions=actions())
    if words.twist:
        module, _, function = words.twist.partition(":")
        twist: Callable[[SupervisorLoop], None] = getattr(importlib.import_module(module), function)
        twist(loop)
    try:
        began = time.monotonic()
        status = loop.run()
        seconds = time.monotonic() - began
    finally:
        # Only ever once: no node comes back into these frames.
        say(ended=True)
    gc.collect()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    say(status=status, wakeups=loop.wakeups, seconds=seconds, open=_open(), rss=_rss(), cpu=cpu)
    sys.exit(status)


def _stopping_after(manager: Manager, deaths: int) -> Manager:
    died = manager.on_exited
    seen = 0

    def count(now: float, node: int, status: int) -> None:
        nonlocal seen
        died(now, node, status)
        seen += 1
        if seen == deaths // 10 or seen == deaths:
            say(deaths=seen, open=_open(), rss=_rss())
        if seen == deaths:
            manager.stop(now)

    manager.on_exited = count  # type: ignore[method-assign]
    return manager


def _open() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) - 1  # without the one that lists them


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
