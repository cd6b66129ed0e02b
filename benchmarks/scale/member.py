"""A member of a group: BOOTSTRAP TOPIC GROUP. Prints the time and the number of its partitions at each change."""

from __future__ import annotations

import sys
import time

from grete.client import Consumer


def main() -> None:
    """Polls until standard input ends."""
    import threading

    bootstrap, topic, group = sys.argv[1:]
    over = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=watch, daemon=True).start()
    with Consumer({"bootstrap.servers": bootstrap, "group.id": group}) as consumer:
        consumer.subscribe([topic])
        owned = -1
        while not over.is_set():
            consumer.poll(timeout=0.02)
            if (count := len(consumer.assignment())) != owned:
                owned = count
                print(time.time(), owned, flush=True)


if __name__ == "__main__":
    main()
