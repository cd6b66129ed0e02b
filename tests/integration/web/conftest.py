"""A web process without its port, beside brokers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from grete._web import topics
from grete._web.collector import Collector
from grete._web.kafka.commands import CommandSender
from grete._web.kafka.gateway import Gateway
from grete._web.kafka.letters import Replays
from grete._web.security.access import Access
from grete._web.server.application import make_application
from grete._web.server.context import Parts
from grete._web.state.store import Store
from grete.client import Admin
from tests.kafka import KafkaCluster


class Web:
    """Collector, pages and a browser without scripts."""

    def __init__(self, servers: str, access: Access | None = None, secret: str = "") -> None:
        self.settings = {"bootstrap.servers": servers}
        with Admin(self.settings) as admin:
            topics.create_topics(admin, 1, 30.0)
        self.store = Store()
        self.gateway = Gateway(self.settings)
        self.replays = Replays(self.gateway)
        self.collector = Collector(self.store, self.settings)
        self.commands = CommandSender(self.gateway, secret)
        self.parts = Parts(self.store, self.gateway, self.collector, self.replays, self.commands)
        self.browser = self.new_browser(access)
        self.collector.start()

    def new_browser(self, access: Access | None = None, **more: Any) -> TestClient:
        application = make_application(self.parts, access or Access(), ["testserver"])
        return TestClient(application, follow_redirects=False, **more)

    def json(self, path: str) -> Any:
        found = self.browser.get(f"/api{path}")
        assert found.status_code == 200, found.text
        return found.json()

    def post(self, page: str, path: str, **fields: object) -> Any:
        """Sends a form of a page."""
        found = re.search(r'name="csrf" value="(\w+)"', self.browser.get(page).text)
        assert found is not None
        return self.browser.post(path, data={name: str(value) for name, value in fields.items()} | {"csrf": found[1]})

    def close(self) -> None:
        self.replays.close()
        self.collector.stop()
        self.gateway.close()


@pytest.fixture
def web(kafka: KafkaCluster) -> Iterator[Web]:
    found = Web(kafka.bootstrap_servers)
    yield found
    found.close()
