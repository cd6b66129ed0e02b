"""A Schema Registry behind https: whom the client trusts, and how it identifies itself."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

import grete
from grete import payloads
from tests.kafka.secrets import secret
from tests.unit.certificates import Authority
from tests.unit.fake_registry import FakeRegistry

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


def server_context(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("registry"))
    return context


@pytest.fixture
def registry(authority: Authority) -> Iterator[FakeRegistry]:
    with FakeRegistry(server_context(authority)) as server:
        yield server


def written(registry: payloads.Registry) -> object:
    """The value that comes back from the registry's schema."""
    form = payloads.Avro(registry, schema=SCHEMA, auto_register=True)
    data = form.encoder("orders")({"id": 7})
    assert data is not None
    return form.decoder("orders")(data)


def test_a_registry_with_a_certificate_of_ones_own_authority(registry: FakeRegistry, authority: Authority) -> None:
    assert registry.url.startswith("https://")
    assert written(payloads.Registry(registry.url, ca=str(authority.ca))) == {"id": 7}
    assert registry.asked("POST")


def test_a_registry_that_nobody_vouches_for_is_told_nothing(registry: FakeRegistry, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger")
    for ca in (None, str(stranger.ca)):
        asked = payloads.Registry(registry.url, user="me", password=secret(), ca=ca)
        with pytest.raises(grete.RetryLater, match="CERTIFICATE_VERIFY_FAILED"):
            written(asked)
    assert registry.requests == []


def test_a_certificate_for_another_host_is_refused(registry: FakeRegistry, authority: Authority) -> None:
    asked = payloads.Registry(registry.url.replace("127.0.0.1", "localhost"), ca=str(authority.ca))
    with pytest.raises(grete.RetryLater, match="Hostname mismatch"):
        written(asked)
    assert registry.requests == []


@pytest.mark.parametrize("password", [None, secret("open sesame")])
def test_a_registry_that_wants_a_certificate_of_its_clients(authority: Authority, password: str | None) -> None:
    context = server_context(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.ca)
    cert, key = authority.sign("client", password)
    with FakeRegistry(context) as registry:
        known = payloads.Registry(
            registry.url, ca=str(authority.ca), cert=str(cert), key=str(key), key_password=password
        )
        assert written(known) == {"id": 7}
        count = len(registry.requests)
        with pytest.raises(grete.RetryLater, match="does not answer"):
            written(payloads.Registry(registry.url, ca=str(authority.ca)))
        assert len(registry.requests) == count
