"""Grete: an App with a handler for each message."""

import grete
from benchmarks.common.arguments import RateArguments
from benchmarks.rate.handler import Windows


def main() -> None:
    arguments = RateArguments.parse()
    app = grete.App(arguments.topic, kafka={"bootstrap.servers": arguments.bootstrap, **arguments.settings}, workers=1)
    windows = Windows(arguments)
    windows.running()
    ended = False

    # Records come all the time, so that a window ends with the first record after its end.
    @app.consumer(arguments.topic)
    def handle(message: grete.Message) -> None:
        nonlocal ended
        value = message.value
        if value is not None:
            windows.handler(value)
        if not ended and not windows.running():
            ended = True
            app.stop()

    app.run()
    windows.report(f"grete {grete.__version__}")


if __name__ == "__main__":
    main()
