"""Handlers that have children: a pool, processes, an executor. Each call notes how these have ended."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal

import grete
from tests.integration.apps import app_log

app = grete.App(
    os.environ["PARENT_GROUP"],
    kafka={"bootstrap.servers": os.environ["PARENT_SERVERS"], "auto.commit.interval.ms": 200},
    workers=1,
)


def square(number: int) -> int:
    """What pools do."""
    return number * number


def wait() -> None:
    """Until a signal ends the process."""
    signal.sigtimedwait([], 20)


@app.consumer(os.environ["PARENT_TOPIC"], max_messages=10)
def parent(messages: grete.Messages) -> None:
    """Notes what it gets, and the results."""
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        pooled = pool.map(square, range(4))
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as executor:
        executed = list(executor.map(square, range(4)))
    statuses = []
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
        child = context.Process(target=wait)
        child.start()
        assert child.pid is not None
        os.kill(child.pid, signum)
        child.join(20)
        statuses.append(child.exitcode)
    app_log.write("batch", offsets=messages.offsets.tolist(), pooled=pooled, executed=executed, statuses=statuses)
