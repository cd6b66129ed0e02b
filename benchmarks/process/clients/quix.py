"""quixstreams: `sdf.update` with `payload=bytes|json`, the value's deserializer."""

import os

import quixstreams

from benchmarks.common.arguments import ConsumeArguments
from benchmarks.process.clients.tally import Tally, leave


def main() -> None:
    arguments = ConsumeArguments.parse()
    app = quixstreams.Application(
        broker_address=arguments.bootstrap,
        consumer_group=f"bench-{os.getpid()}",
        auto_offset_reset="earliest",
        loglevel="WARNING",
    )
    tally = Tally(arguments.records, f"quixstreams {quixstreams.__version__}", leave)
    seen, mark = 0, tally.first

    def handle(value: object) -> None:
        nonlocal seen, mark
        seen += 1
        if seen == mark:
            mark = tally.reached(seen, value)

    topic = app.topic(arguments.topic, value_deserializer=arguments.settings["payload"])
    app.dataframe(topic).update(handle)
    app.run()


if __name__ == "__main__":
    main()
