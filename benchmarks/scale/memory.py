"""Memory of a consumer's assignment: BOOTSTRAP TOPIC PARTITIONS. Prints bytes.

glibc returns what `malloc_trim` cannot (the free end of another thread's heap) once it exceeds a threshold, which grows
with each large block that is freed. `MALLOC_TRIM_THRESHOLD_` keeps it from growing: the growth of the resident set is
then what is in use.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys

from benchmarks.common.process import usage
from grete.client import Consumer


def resident() -> int:
    """Resident bytes, without the free memory that the allocator returns."""
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
    """Measures one process."""
    bootstrap, topic, partitions = sys.argv[1:]
    settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
    print(memory_of_assignment(settings, topic, int(partitions)), flush=True)


if __name__ == "__main__":
    main()
