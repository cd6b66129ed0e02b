"""Receiver of the spans: benchmarks/native/sink.c, pinned. Decodes what was sent to it."""

from __future__ import annotations

import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgpack

from benchmarks.common.build import plain_c
from tests.kafka.processes import end, spawn


@contextmanager
def sink(mode: str, core: int) -> Iterator[str]:
    """Yields the URL of a sink. "away": a URL without a listener."""
    if mode == "away":
        with socket.socket() as closed_port:
            closed_port.bind(("127.0.0.1", 0))  # and does not listen
            yield f"http://127.0.0.1:{closed_port.getsockname()[1]}"
        return
    process = spawn([plain_c("sink.c"), mode], cpus={core}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if process.stdout is None:
            raise AssertionError("its output is a pipe")
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        end(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def last_spans(url: str) -> list[dict[str, Any]]:
    """The spans of the last request to a sink that keeps it, with their tags in "meta"."""
    with urllib.request.urlopen(f"{url}/last", timeout=30) as answer:
        return spans_of(answer.read())


def spans_of(body: bytes) -> list[dict[str, Any]]:
    """Spans in a body. v0.4: traces of maps. v0.5: all strings, then traces of arrays of indexes of strings."""
    read = msgpack.unpackb(body, strict_map_key=False)
    if len(read) == 2 and read[0] and isinstance(read[0][0], str):
        words, traces = read
        return [_named(span, words) for trace in traces for span in trace]
    return [span for trace in read for span in trace]


def _named(span: list[Any], words: list[str]) -> dict[str, Any]:
    service, name, resource, trace_id, span_id, parent_id, *_, meta, _metrics, _kind = span
    return {
        "service": words[service],
        "name": words[name],
        "resource": words[resource],
        "trace_id": trace_id,
        "span_id": span_id,
        "parent_id": parent_id,
        "meta": {words[key]: words[value] for key, value in meta.items()},
    }
