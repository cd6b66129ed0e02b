"""Pages while their brokers are away, and afterwards."""

from __future__ import annotations

import signal

import pytest

from grete._web.topics import REPORTS
from grete.client import Producer
from tests.integration.web.conftest import Web
from tests.kafka import eventually, new_cluster
from tests.unit.web.simulated_reports import report

pytestmark = pytest.mark.kafka


def test_pages_go_on_after_their_broker_was_killed() -> None:
    with new_cluster() as own:
        web = Web(own.bootstrap_servers)
        try:
            with Producer(web.settings) as producer:
                producer.produce_sync(REPORTS, report("before/host-1/7-a"), key=b"before")
                eventually(lambda: web.store.fleet.get("before/host-1/7-a"), 30.0, "a report")
                own.kill(1, signal.SIGKILL)
                # What was reported is there without brokers, and nothing is shown as a defect of the pages.
                for path in ("/", "/processes", "/errors", "/audit", "/process?id=before/host-1/7-a"):
                    assert web.browser.get(path).status_code == 200, path
                own.start(1)
                producer.produce_sync(REPORTS, report("after/host-1/8-b"), key=b"after")
            eventually(lambda: web.store.fleet.get("after/host-1/8-b"), 60.0, "a report after the restart")
            assert web.collector.problem is None
        finally:
            web.close()
