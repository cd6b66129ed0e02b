"""One measured consumer process: BOOTSTRAP TOPIC PARTITIONS RECORDS IDLE_SECONDS. Prints one line of JSON."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time

from benchmarks.common.process import usage
from grete.client import Consumer


def resident() -> int:
    """Resident bytes, without free memory of the allocator."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return usage(os.getpid()).rss


def memory_of_assignment(settings: dict[str, str], topic: str, partitions: int) -> int:
    """Returns by how many bytes the process grows from one assigned partition to all, without fetched records."""
    with Consumer(settings) as consumer:
        found = []
        for count in (1, partitions):
            consumer.assign([(topic, partition, "latest") for partition in range(count)])
            consumer.poll(timeout=2.0)
            found.append(resident())
    return found[1] - found[0]


def main() -> None:
    """Reads all records, then waits at the end of all partitions."""
    bootstrap, topic, partitions, records, idle = sys.argv[1:]
    wanted, seen = int(records), 0
    settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
    memory = memory_of_assignment(settings, topic, int(partitions))
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
        "memory": memory,
        "idle_cpu_ms": 1e3 * waited.cpu_seconds / float(idle),
        "idle_switches": (waited.voluntary_switches + waited.involuntary_switches) / float(idle),
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
