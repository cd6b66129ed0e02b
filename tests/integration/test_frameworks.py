"""The examples for web frameworks on brokers, driven as a server drives them; and `manage.py grete`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import grete
from examples import web_fastapi, web_litestar
from tests.integration.producers import producer
from tests.kafka import KafkaCluster, eventually, new_cluster
from tests.kafka.jars import ROOT
from tests.unit.test_asgi import Asgi, Message, serve

pytestmark = pytest.mark.kafka


@pytest.fixture
def shop() -> Iterator[KafkaCluster]:
    """A broker with the topics of the examples alone."""
    with new_cluster() as cluster:
        for name in ("orders", "refunds"):
            cluster.create_topic(name, partitions=1)
        yield cluster


async def request(asgi: Asgi, state: Message, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Status and decoded body of the response."""
    parts: list[Message] = []
    value = b"" if body is None else json.dumps(body).encode()

    async def receive() -> Message:
        return {"type": "http.request", "body": value, "more_body": False}

    async def send(message: Message) -> None:
        parts.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "server": ("test", 80),
        "client": ("test", 1),
        "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(value)).encode())],
        "query_string": b"",
        "state": dict(state),
        "asgi": {"version": "3.0"},
    }
    await asgi(scope, receive, send)
    return parts[0]["status"], json.loads(b"".join(part.get("body", b"") for part in parts))


@pytest.mark.parametrize("web", [web_fastapi, web_litestar], ids=["fastapi", "litestar"])
def test_a_web_service_writes_orders_and_shows_totals(shop: KafkaCluster, web: Any) -> None:
    web.app.override({}, {"bootstrap.servers": shop.bootstrap_servers})

    async def ask(state: Message) -> None:
        for customer, amount in (("ada", 3), ("bob", 1), ("ada", 4)):
            status, answer = await request(web.api, state, "POST", "/orders", {"customer": customer, "amount": amount})
            assert status == 202, answer
            assert answer["offset"] >= 0

        loop = asyncio.get_running_loop()

        def counted() -> bool:
            asked = asyncio.run_coroutine_threadsafe(request(web.api, state, "GET", "/totals"), loop)
            return asked.result(60) == (200, {"ada": 7, "bob": 1})

        await asyncio.to_thread(lambda: eventually(counted, 60, "totals"))

    said = asyncio.run(serve(web.api, ask))
    assert [message["type"] for message in said] == ["lifespan.startup.complete", "lifespan.shutdown.complete"], said


def test_a_request_without_a_running_app_is_told_so() -> None:
    dependency = grete.asgi.producer(grete.App("stopped"))
    with pytest.raises(grete.GreteError, match=r"lifespan=grete\.asgi\.lifespan"):
        asyncio.run(dependency())  # type: ignore[arg-type]


# Django

SHOP = ROOT / "examples" / "django_shop"


class Project:
    """`manage.py` of the example, with a database of its own."""

    def __init__(self, kafka: KafkaCluster, directory: Path) -> None:
        self.database = directory / "shop.sqlite3"
        self._environment = {
            **os.environ,
            "SHOP_DATABASE": str(self.database),
            "SHOP_KAFKA": kafka.bootstrap_servers,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def spawn(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "manage.py", *words]
        return subprocess.Popen(
            command, cwd=SHOP, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        with self.spawn(*words) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def invoices(self) -> list[tuple[str, int]]:
        with sqlite3.connect(self.database) as connection:
            return sorted(connection.execute("select customer, amount from shop_invoice").fetchall())


@pytest.mark.parametrize("command", [("run",), ("swarm", "--nodes", "2", "--control", "none")], ids=["run", "swarm"])
def test_manage_py_runs_the_app_of_the_settings(shop: KafkaCluster, tmp_path: Path, command: tuple[str, ...]) -> None:
    project = Project(shop, tmp_path)
    assert project.run("migrate", "--run-syncdb")[0] == 0
    with producer(shop.bootstrap_servers) as target:
        target.produce_sync("orders", b'{"customer": "ada", "amount": 3}')
        target.produce_sync("refunds", b'{"customer": "ada", "amount": 1}')
    with project.spawn("grete", *command) as process:

        def written() -> bool:
            assert process.poll() is None, process.communicate()
            return project.invoices() == [("ada", -1), ("ada", 3)]

        eventually(written, 60, "invoices")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert project.invoices() == [("ada", -1), ("ada", 3)]


def test_manage_py_has_the_other_commands_and_their_statuses(shop: KafkaCluster, tmp_path: Path) -> None:
    project = Project(shop, tmp_path)
    status, out, _ = project.run("grete", "info", "--settings", "settings")
    assert status == 0
    assert "django-shop" in out
    assert shop.bootstrap_servers in out
    status, _, err = project.run("grete", "run", "shop:nothing")
    assert (status, '"shop" has no "nothing"' in err) == (2, True), err
    assert project.run("grete", "--help")[0] == 0


def test_manage_py_asks_the_brokers_of_the_settings(shop: KafkaCluster, tmp_path: Path) -> None:
    project = Project(shop, tmp_path)
    status, out, err = project.run("grete", "topics", "list")
    assert (status, "refunds" in out) == (0, True), err
    status, _, err = project.run("grete", "topics", "list", "--bootstrap", "127.0.0.1:1", "--timeout", "1s")
    assert (status, "127.0.0.1:1" in err) == (1, True), "the command line has precedence"
