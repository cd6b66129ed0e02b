"""Additional cost of a job with a listener: time of all threads, until all that it got has been sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.progress import say
from grete.instrumentation import Monitor
from grete.instrumentation.datadog import Tracer
from grete.instrumentation.dogstatsd import DogStatsD
from grete.instrumentation.job_logger import JobLogger

from .agent import agent
from .harness import run
from .measurement import Cost, Pair
from .shapes import SHAPES, Shape

JOBS = {"empty": 2000, "function": 2000, "async": 500}


@dataclass(frozen=True)
class Listening:
    """A monitor with a listener, and a function that sends all that waits."""

    title: str
    monitor: Monitor
    settle: Callable[[], object] = lambda: None


def one() -> Listening:
    """The least there can be."""
    monitor = Monitor()
    monitor.subscribe("job.finished", lambda _: None)
    return Listening("one listener of `job.finished` that does nothing", monitor)


@contextmanager
def logged(level: int, title: str) -> Iterator[Listening]:
    """Lines go to /dev/null, with the time and the level before them."""
    monitor, logger = Monitor(), logging.getLogger(f"benchmark.{level}")
    logger.setLevel(level)
    logger.propagate = False
    with Path("/dev/null").open("w") as nowhere:
        handler = logging.StreamHandler(nowhere)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        monitor.subscribe(JobLogger(logger))
        yield Listening(title, monitor)


@contextmanager
def dogstatsd(port: int) -> Iterator[Listening]:
    """Times of jobs, as an App that has just begun to run would send them."""
    monitor, listener = Monitor(), DogStatsD(f"127.0.0.1:{port}")
    monitor.subscribe(listener)
    monitor.instrument("app.running", {"app": "benchmark", "node": None})
    yield Listening("`DogStatsD`: the time of each job, over UDP", monitor, listener.flush)
    listener.close()


def opentelemetry() -> Listening:
    """Without its SDK no spans or figures are recorded: what is left is the way there."""
    from grete.instrumentation.opentelemetry import OpenTelemetry

    monitor = Monitor()
    monitor.subscribe(OpenTelemetry())
    return Listening("`OpenTelemetry` without its SDK", monitor)


@contextmanager
def traced(port: int, title: str, *, messages: bool = False) -> Iterator[Listening]:
    """To an agent that takes them."""
    monitor, tracer = Monitor(), Tracer("benchmark", agent=f"http://127.0.0.1:{port}", messages=messages)
    monitor.subscribe(tracer)

    def sent() -> None:
        if not tracer.flush(30.0):
            raise AssertionError("the agent has not taken all spans")

    yield Listening(title, monitor, sent)
    dropped = tracer.statistics()["dropped"]
    tracer.close()
    if any(dropped.values()):
        raise AssertionError(f"spans were dropped: {dropped}")


def measure(rounds: int) -> list[Pair]:
    """All that comes with Grete."""
    with ExitStack() as stack:
        http, udp = stack.enter_context(agent())
        empty = {
            "one": one(),
            "logger-off": stack.enter_context(logged(logging.INFO, "`JobLogger`, its level is off")),
            "logger": stack.enter_context(logged(logging.DEBUG, "`JobLogger`, a formatted line to /dev/null")),
            "dogstatsd": stack.enter_context(dogstatsd(udp)),
            "otel": opentelemetry(),
            "tracer": stack.enter_context(traced(http, "`Tracer`: a span for each job, sent to an agent")),
        }
        found = pairs(SHAPES["empty"], empty, rounds)
        title = "`Tracer(messages=True)`: the same, and a span for its record"
        each = {"tracer-messages": stack.enter_context(traced(http, title, messages=True))}
        found += pairs(SHAPES["function"], each, rounds)
        on_loop = {
            "async-one": one(),
            "async-tracer": stack.enter_context(traced(http, "`Tracer`: a span for each job, sent to an agent")),
        }
        return found + pairs(SHAPES["async"], on_loop, rounds)


def pairs(shape: Shape, listening: dict[str, Listening], rounds: int) -> list[Pair]:
    """Pairs with a monitor without a listener; all take turns, and the order changes from round to round."""
    say(f"listeners: {shape.title}: {', '.join(listening)}")
    no_listener = "none"
    ways = {no_listener: Listening("", Monitor()), **listening}
    found: dict[str, list[Cost]] = {name: [] for name in ways}
    order = list(ways)
    for _ in range(rounds):
        for name in order:
            way = ways[name]
            found[name].append(run(shape, JOBS[shape.name], way.monitor, settle=way.settle))
        order = [*order[1:], order[0]]
    without = found[no_listener]
    return [
        Pair(name, f"{shape.title}: {way.title}", shape.records, tuple(zip(without, found[name], strict=True)))
        for name, way in listening.items()
    ]
