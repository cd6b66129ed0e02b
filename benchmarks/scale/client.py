"""One measured consumer process: BOOTSTRAP TOPIC PARTITIONS RECORDS IDLE_SECONDS. Prints one line of JSON."""

from __future__ import annotations

import json
import os
import sys
import time

from benchmarks.common.process import usage
from grete.client import Consumer


def main() -> None:
    """Reads all records, then waits at the end of all partitions."""
    bootstrap, topic, partitions, records, idle = sys.argv[1:]
    wanted, seen = int(records), 0
    settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
    started = time.perf_counter()
    with Consumer(settings) as consumer:
        consumer.assign([(topic, partition, "earliest") for partition in range(int(partitions))])
        while not (messages := consumer.poll(timeout=60.0)):
            pass
        first = time.perf_counter() - started
        seen = skipped = len(messages)
        begin, cpu = time.perf_counter(), time.process_time()
        while seen < wanted:
            messages = consumer.poll(timeout=60.0)
            seen += len(messages)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        del messages
        consumer.poll(timeout=1.0)  # the last fetch sessions settle
        waiting = usage(os.getpid())
        # The length of time itself is measured: this is no wait for a condition.
        deadline = time.monotonic() + float(idle)
        while (rest := deadline - time.monotonic()) > 0:
            consumer.poll(timeout=rest)
        waited = usage(os.getpid()).since(waiting)
    line = {
        "first_record_seconds": first,
        "records_per_second": (seen - skipped) / seconds if seconds else 0.0,
        "cpu_us_per_record": 1e6 * cpu / max(seen - skipped, 1),
        "idle_cpu_ms": 1e3 * waited.cpu_seconds / float(idle),
        "idle_switches": (waited.voluntary_switches + waited.involuntary_switches) / float(idle),
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
