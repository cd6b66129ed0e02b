"""Brokers that come back with other certificates while clients run: no client is made anew, and nothing is lost."""

from __future__ import annotations

import logging
import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import grete
from grete import _native
from grete.client import Admin, Producer
from tests.integration.checked_load import PARTITIONS, CheckedLoad
from tests.kafka import eventually
from tests.kafka.certificates import Authority, Identity
from tests.kafka.ports import ReservedPort

pytestmark = pytest.mark.kafka


class Files:
    """The files of the clients' settings, which are replaced as administrators do."""

    def __init__(self, directory: Path) -> None:
        self.ca, self.keystore = directory / "ca.pem", directory / "client.pem"

    def take(self, authority: Authority, client: Identity) -> None:
        for target, source in ((self.ca, authority.file), (self.keystore, client.keystore)):
            new = target.with_suffix(".new")
            shutil.copy(source, new)
            new.replace(target)

    def settings(self, port: int) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"localhost:{port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.ca),
            "ssl.keystore.location": str(self.keystore),
            "reconnect.backoff.max.ms": 200,
        }


class Restarted:
    """A broker with mutual TLS on one port, which is started again with other certificates and its former records."""

    def __init__(self, port: int, data: Path) -> None:
        self._port, self._data = port, data
        self._native: _native.EmbeddedBroker | None = None

    def start(self, authority: Authority, broker: Identity) -> None:
        self.stop()
        self._native = _native.EmbeddedBroker(
            ports=[self._port],
            topics=[("load", PARTITIONS), ("load-idle", 1)],
            data=self._data,
            advertised_host="localhost",
            tls=(broker.chain.read_text(), broker.key.read_text(), authority.file.read_text()),
        )

    def stop(self) -> None:
        if self._native is not None:
            self._native.stop()


def test_an_app_and_a_producer_go_on_when_their_brokers_get_new_certificates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    files, reserved = Files(tmp_path), ReservedPort()
    former, new = Authority(tmp_path / "former", "CA"), Authority(tmp_path / "new", "CA")
    with ExitStack() as stack:
        stack.callback(reserved.release)
        broker = Restarted(reserved.number, tmp_path / "data")
        stack.callback(broker.stop)
        files.take(former, former.sign("client"))
        broker.start(former, former.sign("broker-1"))
        load = stack.enter_context(CheckedLoad(files.settings(reserved.number), "load"))

        def goes_on() -> None:
            handled = load.handled
            eventually(lambda: load.handled > handled + 1000 or load.faults, 60.0, lambda: f"records: {load.lost}")
            assert not load.faults, load.faults[:5]

        with load.producing():
            goes_on()
            # The same CA; the client's certificate was renewed, too.
            files.take(former, former.sign("client-2"))
            broker.start(former, former.sign("broker-2"))
            goes_on()
            # A new CA, in the clients' files first. Open connections stay as they are.
            lost = len(load.lost)
            files.take(new, new.sign("client"))
            goes_on()
            assert len(load.lost) == lost
            broker.start(new, new.sign("broker-3"))
            goes_on()
        load.settle()
        assert load.app.error is None
        # The former CA is of no use any more: the new files were read.
        with (
            pytest.raises(grete.TlsError),
            Admin(files.settings(reserved.number) | {"ssl.ca.location": str(former.file)}) as admin,
        ):
            admin.topics(timeout=10)
    assert "tls.reload_failed" not in {getattr(record, "event", None) for record in caplog.records}


def emptied(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def folder(path: Path) -> None:
    emptied(path)
    path.mkdir()


def pipe(path: Path) -> None:
    emptied(path)
    os.mkfifo(path)


def garbage(path: Path) -> None:
    emptied(path)
    path.write_bytes(b"\x00\xff" * 1000)


def test_files_that_cannot_be_used_leave_the_former_ones_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    files, reserved, authority = Files(tmp_path), ReservedPort(), Authority(tmp_path / "ca", "CA")
    with ExitStack() as stack:
        stack.callback(reserved.release)
        broker = Restarted(reserved.number, tmp_path / "data")
        stack.callback(broker.stop)
        files.take(authority, authority.sign("client"))
        broker.start(authority, authority.sign("broker"))
        producer = stack.enter_context(Producer(files.settings(reserved.number)))
        producer.produce_sync("load", b"before")
        for spoil in (half, folder, pipe, garbage, emptied):
            caplog.clear()
            spoil(files.ca)
            broker.start(authority, authority.sign(f"broker-{spoil.__name__}"))
            producer.produce_sync("load", spoil.__name__.encode(), timeout=30.0)
            named = [record.message for record in caplog.records if "changed certificates were not" in record.message]
            assert len(named) == 1, named
            assert str(files.ca) in named[0]
