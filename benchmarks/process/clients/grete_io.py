"""Grete, a handler that waits 1 ms for each record: `concurrency=partition|key|unordered style=sync|async`."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from typing import Any

import grete
from benchmarks.common.arguments import ConsumeArguments
from benchmarks.process.clients.sampler import Plan, Watcher

SECONDS = 0.001


def main() -> None:
    arguments = ConsumeArguments.parse()
    settings: dict[str, Any] = dict(arguments.settings)
    plan, style, workers = Plan.read(settings), settings.pop("style"), int(settings.pop("workers"))
    app = grete.App(f"bench-{os.getpid()}", kafka={"bootstrap.servers": arguments.bootstrap}, workers=workers)
    # One step is one instruction, whatever thread it runs in.
    done = itertools.count()
    watcher = Watcher(app, plan, lambda: {"records": next(done)})
    route = app.consumer(arguments.topic, **settings)

    if style == "async":

        @route
        async def wait(_message: grete.Message) -> None:
            watcher.begun.set()
            await asyncio.sleep(SECONDS)
            next(done)

    else:

        @route
        def sleep(_message: grete.Message) -> None:
            watcher.begun.set()
            time.sleep(SECONDS)
            next(done)

    app.run()


if __name__ == "__main__":
    main()
