"""Grete, one record after the other: `produce_sync`, or as `mode` says."""

import time
from collections.abc import Callable

import grete
from benchmarks.common.arguments import ProduceArguments
from benchmarks.produce.meters import SyncMeter
from benchmarks.produce.wakeup_time import handover_ns
from grete.client import Producer

# Seconds for which the sleeping client sleeps until it checks again.
SLEEP = 0.1


def sender(producer: Producer, mode: str, topic: str, value: bytes, note: Callable[[int], None]) -> Callable[[], None]:
    """Function that sends one record and returns when it is acknowledged; `note` gets the hand-over's nanoseconds."""
    clock = time.monotonic

    def sync() -> None:
        delivery = producer.produce_sync(topic, value, partition=0)
        now = clock()
        note(handover_ns(delivery, now))

    def wait() -> None:
        delivery = producer.produce(topic, value, partition=0).wait()
        now = clock()
        note(handover_ns(delivery, now))

    def sleep() -> None:
        delivery = producer.produce(topic, value, partition=0)
        while not delivery.done:
            time.sleep(SLEEP)
        now = clock()
        if delivery.error is not None:
            raise delivery.error
        note(handover_ns(delivery, now))

    return {"sync": sync, "wait": wait, "sleep": sleep}[mode]


def main() -> None:
    arguments = ProduceArguments.parse()
    mode = arguments.settings.pop("mode")
    meter = SyncMeter()
    with Producer({"bootstrap.servers": arguments.bootstrap, **arguments.settings}) as producer:
        send = sender(producer, mode, arguments.topic, arguments.value, meter.handovers_ns.append)
        meter.measure(send, arguments.warm_up, arguments.records)
        meter.report(f"grete {grete.__version__}")


if __name__ == "__main__":
    main()
