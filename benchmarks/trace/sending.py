"""Part "send": finished spans, encoded and sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.common.build import plain_c
from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError, run_client

from .catalogue import SENDERS, SIZES, Client
from .clients.shape import TAGS
from .measurement import Bench, Measurement, Sent
from .sink import last_spans, sink

TIMEOUT = 120.0

Line = dict[str, Any]


def measure(bench: Bench, found: Measurement) -> None:
    """First what they send, then how fast, round by round, then what they allocate."""
    clients = [client for client in SENDERS if _checked(bench, found, client)]
    timed: dict[tuple[str, int], list[Line]] = {}
    counted: dict[tuple[str, int], Line] = {}
    with sink("well", bench.sink_core) as url:
        for number in range(bench.rounds):
            say(f"send: round {number + 1} of {bench.rounds}")
            for client in clients:
                for line in _lines(bench, found, client, url, SIZES):
                    timed.setdefault((client.name, line["spans"]), []).append(line)
        say("send: allocations")
        preload = {"LD_PRELOAD": str(plain_c("allocations.c", "-shared", "-fPIC")), "PYTHONMALLOC": "malloc"}
        for client in clients:
            for line in _lines(bench, found, client, url, SIZES, preload):
                counted[client.name, line["spans"]] = line
    for client in clients:
        for size in SIZES:
            if lines := timed.get((client.name, size)):
                found.sent.append(_row(client, size, lines, counted.get((client.name, size), {})))


def _row(client: Client, size: int, lines: Sequence[Line], counted: Line) -> Sent:
    return Sent(
        client.name,
        client.title,
        lines[0]["version"],
        size,
        tuple(line["seconds"] for line in lines),
        tuple(line["cpu_seconds"] for line in lines),
        counted.get("objects"),
        counted.get("bytes"),
    )


def _lines(
    bench: Bench,
    found: Measurement,
    client: Client,
    url: str,
    sizes: Sequence[int],
    environment: dict[str, str] | None = None,
) -> list[Line]:
    words = [url, str(bench.seconds), ",".join(map(str, sizes))]
    environment_of_client = {**client.environment, **(environment or {})}
    try:
        return run_client([*client.command, *words], bench.client_core, TIMEOUT, environment_of_client)
    except ClientFailedError as error:
        found.failed(f"send, {client.title}", error)
        return []


def _checked(bench: Bench, found: Measurement, client: Client) -> bool:
    """Whether the agent gets all spans with all tags, of each size."""
    for size in SIZES:
        with sink("keep", bench.sink_core) as url:
            one = Bench(bench.sink_core, bench.client_core, 1, 0.001)
            if not _lines(one, found, client, url, [size]):
                return False
            spans = last_spans(url)
        if problem := wrong(spans, size):
            found.failed(f"send, {client.title}, {size} spans", ValueError(problem))
            return False
    return True


def wrong(spans: Sequence[dict[str, Any]], size: int) -> str:
    """Describes the defect of one trace of so many spans; "" if all is well."""
    if len({span["span_id"] for span in spans}) != size or len(spans) != size:
        return f"{len(spans)} spans instead of {size}"
    without = [span["name"] for span in spans if not TAGS.items() <= span["meta"].items()]
    if without:
        return f"{without[0]} has not all tags"
    # None is 0, or is left out.
    parents = Counter(span.get("parent_id") or 0 for span in spans)
    roots = [span["span_id"] for span in spans if not span.get("parent_id")]
    if len(roots) != 1 or parents[roots[0]] != size - 1:
        return "the first one is not the parent of all others"
    return ""
