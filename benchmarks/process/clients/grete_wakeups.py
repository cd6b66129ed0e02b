"""Grete, jobs of one record whose handler sleeps `sleep_ms`: how often do its workers give up the core by themselves?

What the handler itself gives up (the sleep, and getting the GIL back after it) is counted in the thread, around it.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grete
from benchmarks.common.arguments import ConsumeArguments
from benchmarks.common.process import usage
from benchmarks.process.clients.sampler import Plan, Watcher


def own_switches() -> int:
    """Voluntary ones of the calling thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def switches_of(thread: int) -> int:
    """Voluntary ones of any thread of this process."""
    for line in Path(f"/proc/self/task/{thread}/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            return int(line.split()[1])
    raise ValueError(f"no context switches in the status of thread {thread}")


def main() -> None:
    arguments = ConsumeArguments.parse()
    settings: dict[str, Any] = dict(arguments.settings)
    plan, workers = Plan.read(settings), int(settings.pop("workers"))
    seconds = int(settings.pop("sleep_ms")) / 1e3
    app = grete.App(f"bench-{os.getpid()}", kafka={"bootstrap.servers": arguments.bootstrap}, workers=workers)
    jobs: Counter[int] = Counter()
    handlers: Counter[int] = Counter()

    def look() -> dict[str, int]:
        threads = [t.native_id for t in threading.enumerate() if t.name.startswith("grete-worker")]
        return {
            "jobs": sum(jobs.values()),
            "handlers": sum(handlers.values()),
            "workers": sum(switches_of(thread) for thread in threads if thread is not None),
            "process": usage(os.getpid()).voluntary_switches,
        }

    watcher = Watcher(app, plan, look)

    @app.consumer(arguments.topic, max_messages=1, **settings)
    class Sleeps(grete.Consumer):
        """Each thread counts for itself."""

        def consume(self) -> None:
            thread, before = threading.get_ident(), own_switches()
            watcher.begun.set()
            if seconds:
                time.sleep(seconds)
            jobs[thread] += 1
            handlers[thread] += own_switches() - before

    app.run()


if __name__ == "__main__":
    main()
