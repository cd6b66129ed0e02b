"""Grete: `produce_sync` of paced values, as `benchmarks.rate.paced` makes them. BOOTSTRAP TOPIC PER_SECOND SECONDS."""

from benchmarks.rate.paced import Pace
from grete.client import Producer


def main() -> None:
    pace = Pace.parse()
    with Producer({"bootstrap.servers": pace.bootstrap}) as producer:
        pace.run(lambda value: producer.produce_sync(pace.topic, value, partition=0))


if __name__ == "__main__":
    main()
