"""The events of single records, in each style that gets them one by one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import grete
from grete import _native
from grete.instrumentation import Event, Monitor
from tests.unit.fake_jobs import FakeJob
from tests.unit.record_batches import Record, batch
from tests.unit.test_emit import Everything, as_described
from tests.unit.test_hook_runner import Rig


def numbers(*values: bytes) -> grete.Messages:
    """From offset 5 on, decoded as numbers."""
    records = [Record(5 + at, value) for at, value in enumerate(values)]
    return _native._testing_decode(batch(records), "orders", 3, decoder=int)


got: list[object] = []


def take(message: grete.Message) -> None:
    note(message.offset)


def note(what: object) -> None:
    got.append(what)
    if what in (7, 103):
        raise ValueError("no")


async def take_later(message: grete.Message) -> None:
    await asyncio.sleep(0)
    note(message.offset)


def take_payload(payload: int) -> None:
    note(payload)


async def take_payload_later(payload: int) -> None:
    await asyncio.sleep(0)
    note(payload)


STYLES: list[tuple[Callable[..., Any], bool, list[object]]] = [
    (take, False, [5, 6, 7]),
    (take_later, True, [5, 6, 7]),
    (take_payload, False, [101, 102, 103]),
    (take_payload_later, True, [101, 102, 103]),
]


def rig_of(handler: Callable[..., Any], asynchronous: bool, monitor: Monitor) -> Rig:
    settings = {"payload": int} if "payload" in handler.__name__ else {}
    got.clear()
    return Rig(handler, asynchronous=asynchronous, monitor=monitor, **settings)


def run(rig: Rig, asynchronous: bool, *values: bytes) -> FakeJob:
    job = FakeJob(messages=numbers(*values))
    if asynchronous:
        asyncio.run(rig.run_async(job))
    else:
        rig.run(job)
    return job


@pytest.mark.parametrize(("handler", "asynchronous", "wanted"), STYLES)
def test_each_record_is_emitted_before_and_after(
    handler: Callable[..., Any], asynchronous: bool, wanted: list[object]
) -> None:
    monitor = Monitor()
    rig = rig_of(handler, asynchronous, monitor)
    heard = Everything(monitor)
    with pytest.raises(ValueError, match="no") as raised:
        run(rig, asynchronous, b"101", b"102", b"103", b"104")
    assert got == wanted
    emitted = [occurred for occurred in heard if occurred.name.startswith("message.")]
    assert [occurred.name for occurred in emitted] == ["message.process", "message.processed"] * 3
    assert all(as_described(occurred) for occurred in emitted)
    assert [occurred["offset"] for occurred in emitted] == [5, 5, 6, 6, 7, 7]
    assert [occurred["message"].value for occurred in emitted[::2]] == [b"101", b"102", b"103"]
    assert [occurred["error"] for occurred in emitted[1::2]] == [None, None, raised.value]
    place = {"handler": rig.route.name, "topic": "orders", "partition": 3, "slot": 0}
    assert all(place.items() <= occurred.payload.items() for occurred in emitted)
    assert all(occurred.time is not None and 0 <= occurred.time < 60 for occurred in emitted[1::2])


@pytest.mark.parametrize(("handler", "asynchronous", "wanted"), STYLES)
@pytest.mark.parametrize("name", ["message.process", "message.processed"])
def test_one_of_them_may_be_listened_to_alone(
    handler: Callable[..., Any], asynchronous: bool, wanted: list[object], name: str
) -> None:
    monitor, heard = Monitor(), list[Event]()
    monitor.subscribe(name, heard.append)
    rig = rig_of(handler, asynchronous, monitor)
    job = run(rig, asynchronous, b"101", b"102")
    assert got == wanted[:2]
    assert [occurred["offset"] for occurred in heard] == [5, 6]
    assert job.done_rows == 2


def test_a_decoding_failure_is_emitted_with_its_error() -> None:
    monitor, heard = Monitor(), list[Event]()
    monitor.subscribe("message.processed", heard.append)
    with pytest.raises(grete.DecodeError) as raised:
        run(rig_of(take_payload, False, monitor), False, b"101", b"x")
    assert [occurred["error"] for occurred in heard] == [None, raised.value]


def test_handlers_of_batches_emit_no_events_of_single_records() -> None:
    monitor = Monitor()
    rig, heard = Rig(lambda messages: None, monitor=monitor), Everything(monitor)
    rig.run(FakeJob(messages=numbers(b"101")))
    assert not any(name.startswith("message.") for name in heard.names())
