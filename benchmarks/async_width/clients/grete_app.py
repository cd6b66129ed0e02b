"""Grete, a coroutine function for each message: `concurrency=key|unordered`, the other settings as in @app.consumer."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import grete
from benchmarks.async_width.clients.stopwatch import Stopwatch
from benchmarks.common.arguments import ConsumeArguments


async def main() -> None:
    """Runs an App on a loop of its own until all records are handled."""
    arguments = ConsumeArguments.parse()
    settings: dict[str, Any] = dict(arguments.settings)
    watch = Stopwatch(arguments.records, float(settings.pop("wait")))
    loop = asyncio.get_running_loop()
    app = grete.App(f"bench-{os.getpid()}", kafka={"bootstrap.servers": arguments.bootstrap})

    @app.consumer(arguments.topic, **settings)
    async def wait(_message: grete.Message) -> None:
        await watch.handle()

    async with app.running():
        await watch.finished.wait()
    watch.report(f"grete {grete.__version__}, {type(loop).__module__.partition('.')[0]}")


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        uvloop.run(main())
