"""The clock of the Python clients and the windows of the paced test."""

from __future__ import annotations

import json
import time
from struct import pack

import pytest

from benchmarks.common.arguments import RateArguments
from benchmarks.common.meter import Meter
from benchmarks.rate.handler import Handler, Windows


def test_the_first_batch_is_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter(30)
    assert not meter.add(0, 0)
    assert not meter.add(10, 100)
    assert not meter.add(10, 50)
    assert meter.add(10, 50)
    meter.report("1.0")
    line = json.loads(capsys.readouterr().out)
    assert (line["records"], line["counted"], line["bytes"]) == (30, 20, 200)
    assert line["seconds"] > 0
    assert line["peak_rss"] > 1 << 20


def value(sequence: int, number: int | None = None) -> bytes:
    return pack("<QQI3x", sequence, time.time_ns(), sequence if number is None else number)


def test_gaps_and_damage_are_seen() -> None:
    handler = Handler(10)
    for sequence in (0, 1, 2):
        handler(value(sequence))
    assert handler.wrong(range(3)) == 0
    handler(value(4))
    handler(value(4))
    handler(value(5, number=7))
    assert handler.wrong(range(6)) == 3


def test_windows_leave_the_warm_up_out(capsys: pytest.CaptureFixture[str]) -> None:
    windows = Windows(RateArguments("", "", per_second=100, warm_up=0.02, windows=2, seconds=0.02, settings={}))
    sequence = 0
    while windows.running():
        if sequence < 900:
            windows.handler(value(sequence))
            sequence += 1
    windows.report("1.0")
    line = json.loads(capsys.readouterr().out)
    assert len(line["windows"]) == 2
    for window in line["windows"]:
        assert window["seconds"] >= 0.02
        assert window["wrong"] == 0
