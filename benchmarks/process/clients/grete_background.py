"""Grete, jobs of one record beside crowds of background threads that are blocked: `sizes=0,10,100 repeats= seconds=`.

One process goes through all sizes in turn, so that what differs between phases is the crowd alone. The handler itself
reads the clock and changes the crowd, between two phases.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

import grete
from benchmarks.common.arguments import ConsumeArguments

# After a change of the crowd, until the threads have come to rest.
SETTLE = 0.05


def main() -> None:
    arguments = ConsumeArguments.parse()
    sizes = [int(size) for size in arguments.settings["sizes"].split(",")]
    repeats, seconds = int(arguments.settings["repeats"]), float(arguments.settings["seconds"])
    app = grete.App(f"bench-{os.getpid()}", kafka={"bootstrap.servers": arguments.bootstrap}, workers=1)
    phases: list[dict[str, Any]] = []

    @app.consumer(arguments.topic, max_messages=1)
    class Crowded(grete.Consumer):
        """Walks through the phases, one step with each job."""

        def initialize(self) -> None:
            self.go = threading.Event()
            self.steps = self.walk()

        def consume(self) -> None:
            next(self.steps, None)

        def walk(self) -> Iterator[None]:
            for size in chain.from_iterable(repeat(sizes, repeats)):
                ready = threading.Barrier(size + 1)
                for _ in range(size):
                    self.background(self.block, self.go, ready)
                ready.wait()
                yield from until(time.perf_counter() + SETTLE)
                jobs, wall, cpu = 0, time.perf_counter(), time.process_time()
                for _ in until(wall + seconds):
                    jobs += 1
                    yield
                used = {"cpu": time.process_time() - cpu, "seconds": time.perf_counter() - wall}
                phases.append({"threads": size, "jobs": jobs, **used})
                self.go.set()
                self.go = threading.Event()
            print(json.dumps({"phases": phases, "version": f"grete {grete.__version__}"}), flush=True)
            app.stop()

        @staticmethod
        def block(go: threading.Event, ready: threading.Barrier) -> None:
            """Waits, like a thread that waits for a message from elsewhere."""
            ready.wait()
            go.wait()

    app.run()


def until(moment: float) -> Iterator[None]:
    """Steps as long as there is time."""
    while time.perf_counter() < moment:
        yield


if __name__ == "__main__":
    main()
