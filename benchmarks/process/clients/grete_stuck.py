"""Grete, a handler that waits 1 ms for each record, and one that never comes back on partition 0 for `stuck` seconds.

Prints how many records each partition got done before and while it is stuck, what its group went through, and who was
named in the log.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import Counter
from typing import Any

import grete
from benchmarks.common.arguments import ConsumeArguments

SECONDS = 0.001
# From the first record until all partitions have theirs, and from the moment of getting stuck until it can be seen.
SETTLE = 3.0


class Named(logging.Handler):
    """Keeps what was said about stalls."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Events only."""
        if getattr(record, "event", None) == "consumer.stalled":
            self.records.append({"message": record.getMessage(), "partition": getattr(record, "partition", None)})


def main() -> None:
    arguments = ConsumeArguments.parse()
    settings: dict[str, Any] = dict(arguments.settings)
    before, stuck, workers = (float(settings.pop(name)) for name in ("before", "stuck", "workers"))
    named = Named()
    logging.getLogger("grete").addHandler(named)
    logging.getLogger("grete").setLevel(logging.INFO)
    app = grete.App(f"bench-{os.getpid()}", kafka={"bootstrap.servers": arguments.bootstrap}, workers=int(workers))
    begun, hang, go_on = threading.Event(), threading.Event(), threading.Event()
    done: Counter[int] = Counter()
    hooks: Counter[str] = Counter()

    @app.consumer(arguments.topic, **settings)
    class Waits(grete.Consumer):
        """A partition is one thread's at a time, so counting needs no lock."""

        def initialize(self) -> None:
            hooks["initialize"] += 1

        def revoked(self) -> None:
            hooks["revoked"] += 1

        def consume(self) -> None:
            begun.set()
            for _ in self.messages:
                time.sleep(SECONDS)
                done[self.partition] += 1
                if self.partition == 0 and hang.is_set():
                    go_on.wait()

    def watch() -> None:
        begun.wait()
        # What is measured is the length of time itself: these are no waits for a condition.
        time.sleep(SETTLE)
        samples = [_sample(done)]
        time.sleep(before)
        samples.append(_sample(done))
        hang.set()
        time.sleep(SETTLE)
        samples.append(_sample(done))
        time.sleep(stuck)
        samples.append(_sample(done))
        line = {
            "samples": samples,
            "hooks": dict(hooks),
            "logged": named.records,
            "statistics": app.statistics()["stalled"],
            "version": grete.__version__,
        }
        print(json.dumps(line), flush=True)
        go_on.set()
        app.stop()

    threading.Thread(target=watch, name="bench-watcher", daemon=True).start()
    app.run()


def _sample(done: Counter[int]) -> dict[str, Any]:
    partitions = {str(partition): records for partition, records in sorted(done.items())}
    return {"at": time.perf_counter(), "cpu": time.process_time(), "partitions": partitions}


if __name__ == "__main__":
    main()
