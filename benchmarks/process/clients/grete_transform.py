"""Grete, an App that reads, transforms and produces: `style=each|many|async out=TOPIC group=NAME`.

The clock stops when the App has stopped: everything is delivered and committed then.
"""

from __future__ import annotations

from typing import Any

import grete
from benchmarks.common.arguments import ConsumeArguments
from benchmarks.common.meter import Meter


def each(meter: Meter, app: grete.App, out: str) -> type[grete.Consumer]:
    """A class that produces record by record."""

    class Each(grete.Consumer):
        def consume(self) -> None:
            produce = self.producer.produce
            for message in self.messages:
                assert message.value is not None
                produce(out, message.value.upper(), key=message.key)
            if meter.add(len(self.messages), 0):
                app.stop()

    return Each


def many(meter: Meter, app: grete.App, out: str) -> type[grete.Consumer]:
    """A class that produces a batch in one call."""

    class Many(grete.Consumer):
        def consume(self) -> None:
            rows = [(message.key, message.value.upper()) for message in self.messages if message.value is not None]
            self.producer.produce_many(out, rows)
            if meter.add(len(self.messages), 0):
                app.stop()

    return Many


def coroutine(meter: Meter, app: grete.App, out: str) -> type[grete.Consumer]:
    """The first one on the event loop."""

    class Coroutine(grete.Consumer):
        async def consume(self) -> None:
            produce = self.producer.produce
            for message in self.messages:
                assert message.value is not None
                produce(out, message.value.upper(), key=message.key)
            if meter.add(len(self.messages), 0):
                app.stop()

    return Coroutine


STYLES = {"each": each, "many": many, "async": coroutine}


def main() -> None:
    arguments = ConsumeArguments.parse()
    settings: dict[str, Any] = dict(arguments.settings)
    style, out, group = settings.pop("style"), settings.pop("out"), settings.pop("group")
    meter = Meter(arguments.records)
    # One worker and one loop: the meter is used by one thread.
    app = grete.App(group, kafka={"bootstrap.servers": arguments.bootstrap, **settings}, workers=1)
    app.consumer(arguments.topic)(STYLES[style](meter, app, out))
    app.run()
    meter.report(f"grete {grete.__version__}")


if __name__ == "__main__":
    main()
