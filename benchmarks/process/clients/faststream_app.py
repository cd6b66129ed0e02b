"""faststream on either of its Kafka backends: `backend=aiokafka|confluent payload=none|json`; no logger."""

import asyncio
import os
from importlib.metadata import version
from typing import Any

from faststream import FastStream

from benchmarks.common.arguments import ConsumeArguments
from benchmarks.process.clients.record_clock import Tally, leave

# The package under each backend.
PACKAGES = {"aiokafka": "aiokafka", "confluent": "confluent-kafka"}


def broker(backend: str, bootstrap: str) -> Any:
    """Without a logger: its default one logs each record twice."""
    if backend == "aiokafka":
        from faststream.kafka import KafkaBroker

        return KafkaBroker(bootstrap, logger=None)
    from faststream.confluent import KafkaBroker as ConfluentBroker

    return ConfluentBroker(bootstrap, logger=None)


def main() -> None:
    arguments = ConsumeArguments.parse()
    backend = arguments.settings["backend"]
    kafka = broker(backend, arguments.bootstrap)
    app = FastStream(kafka, logger=None)
    package = PACKAGES[backend]
    tally = Tally(arguments.records, f"faststream {version('faststream')}, {package} {version(package)}", leave)
    seen, mark = 0, tally.first
    subscribe = kafka.subscriber(arguments.topic, group_id=f"bench-{os.getpid()}", auto_offset_reset="earliest")

    if arguments.settings["payload"] == "json":

        @subscribe  # type: ignore[untyped-decorator]
        async def handle_json(msg: dict[str, Any]) -> None:
            nonlocal seen, mark
            seen += 1
            if seen == mark:
                mark = tally.reached(seen, msg)

    else:

        @subscribe  # type: ignore[untyped-decorator]
        async def handle(msg) -> None:  # type: ignore[no-untyped-def]  # as fast as it can: nothing to convert to
            nonlocal seen, mark
            seen += 1
            if seen == mark:
                mark = tally.reached(seen, msg)

    asyncio.run(app.run())


if __name__ == "__main__":
    main()
