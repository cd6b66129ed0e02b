"""quixstreams: `sdf.update` with `payload=bytes|json`, the value's deserializer."""

import os

import quixstreams

from benchmarks.common.arguments import ConsumeArguments
from benchmarks.process.clients.record_clock import Tally, counting, leave


def main() -> None:
    arguments = ConsumeArguments.parse()
    app = quixstreams.Application(
        broker_address=arguments.bootstrap,
        consumer_group=f"bench-{os.getpid()}",
        auto_offset_reset="earliest",
        loglevel="WARNING",
    )
    tally = Tally(arguments.records, f"quixstreams {quixstreams.__version__}", leave)
    topic = app.topic(arguments.topic, value_deserializer=arguments.settings["payload"])
    app.dataframe(topic).update(counting(tally))
    app.run()


if __name__ == "__main__":
    main()
