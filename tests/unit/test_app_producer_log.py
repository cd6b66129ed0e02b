"""Logger of an App's producer: that of the App, whichever thread fetches the lines."""

from __future__ import annotations

import logging

import pytest

import grete
from grete._processing.instances.shared_producer import SharedProducer


def test_the_lines_of_an_apps_producer_are_those_of_the_app(caplog: pytest.LogCaptureFixture) -> None:
    shared = SharedProducer({"bootstrap.servers": "127.0.0.1:1"}, lambda _: True)
    with caplog.at_level(logging.DEBUG, "grete"):
        with pytest.raises(grete.TimeoutError):
            shared.get().partitions("orders", 2.0)  # the connection is refused, and that is logged
        shared.close(0.0)
    # The thread of the tokens of an earlier test's clients may still be there for a few seconds.
    assert {record.name for record in caplog.records if record.module == "emit"} == {"grete"}
