"""The units of the documentation start, reload and stop an App."""

from __future__ import annotations

from pathlib import Path

import pytest

from grete.broker import Broker
from grete.client import Producer
from tests.integration.page_runner import DOCS, blocks
from tests.integration.service_unit import ServiceUnit
from tests.kafka import eventually

APP = """
import grete

app = grete.App("billing")


@app.consumer("orders")
def charge(order: bytes) -> None: ...
"""
LOGIN = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "billing", "sasl.password": "secret"}
UNIT = DOCS.parent / "examples" / "deploy" / "grete.service"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "billing").mkdir()
    (tmp_path / "billing" / "__init__.py").touch()
    (tmp_path / "billing" / "app.py").write_text(APP)
    (tmp_path / "kafka-password").write_text("secret\n")
    return tmp_path


def test_one_process_reads_its_password_and_stops_cleanly(directory: Path) -> None:
    broker = Broker(topics={"orders": 2}, tls=directory / "tls", sasl={"billing": "secret"})
    with broker:
        settings = broker.client_settings | {"bootstrap.servers": broker.bootstrap_servers}
        unit = UNIT.read_text().replace("kafka:9093", broker.bootstrap_servers).replace("--probes 8080", "--probes 0")
        # Its certificates are no authority of the machine's.
        with ServiceUnit(unit, directory, SSL_CERT_FILE=str(settings["ssl.ca.location"])) as service:
            with Producer(settings | LOGIN) as producer:
                producer.produce_sync("orders", b"1")
            eventually(lambda: broker.committed("billing"), 30, service.log.read_text)
            assert service.stop() == 0
        assert "secret" not in service.log.read_text()


def test_several_processes_are_ready_reload_and_stop(directory: Path) -> None:
    (unit,) = (block.text for block in blocks("guides/systemd.md") if block.title == "billing.service")
    with Broker(topics={"orders": 2}) as broker:
        servers = broker.bootstrap_servers
        unit = unit.replace("--probes 8080", "--probes 0")
        with ServiceUnit(unit, directory, GRETE_KAFKA_BOOTSTRAP_SERVERS=servers) as service:
            service.until_notified("READY=1")
            assert (directory / "run" / "billing" / "control.sock").is_socket()
            service.reload()
            service.until_notified("RELOADING=1")
            service.until_notified("READY=1", times=2)
            assert service.stop() == 0
            service.until_notified("STOPPING=1")
