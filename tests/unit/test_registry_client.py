"""The client of a Schema Registry: tokens, several addresses, errors, and what waits for what."""

import asyncio
import base64
import enum
import importlib.util
import json
import os
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

import grete
from grete.errors import EncodeError
from grete.payloads import Avro, ClientCredentials, JsonSchema, Protobuf, Registry
from grete.payloads.schema_registry.cache import Cache
from grete.payloads.schema_registry.schemas import Schema
from tests.kafka.secrets import secret
from tests.unit.fake_registry import FakeRegistry

NOWHERE = "http://127.0.0.1:1"
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
WITH_MORE = {**ORDER, "fields": [{"name": "id", "type": "long"}, {"name": "more", "type": "long"}]}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as fake:
        yield fake


def text(schema: Any) -> Schema:
    return Schema(json.dumps(schema))


# Who asks


def test_tokens_of_client_credentials(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("grete.payloads.schema_registry.auth.monotonic", lambda: now)
    monkeypatch.setattr("grete.payloads.schema_registry.transport.monotonic", lambda: now)
    registry.register("orders-value", {"schema": json.dumps(ORDER)})
    registry.token_answer = {"expires_in": 100}
    credentials = ClientCredentials(f"{registry.url}/token", "me", f"se:{secret()}", scope="read", audience="sr")
    client = Registry(registry.url, auth=credentials)
    registry.authorization = "Bearer token-1"
    for _ in range(2):
        assert client.schema(1).text == json.dumps(ORDER)
    assert registry.asked("POST") == ["/token"]
    assert registry.headers[0]["Authorization"] == "Basic " + base64.b64encode(f"me:se%3A{secret()}".encode()).decode()
    assert secret() not in repr(credentials)
    now += 81
    registry.authorization = "Bearer token-2"
    assert client.schema(1).id == 1
    # A token that is refused is not used again.
    registry.authorization = "Bearer token-3"
    with pytest.raises(grete.RetryLater, match="refuses access to a schema with id 1: 401"):
        client.schema(1)
    now += 1.0
    assert client.schema(1).id == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [({"access_token": None}, "answers without an access_token"), ({"access_token": 3}, "without an access_token")],
)
def test_a_token_endpoint_in_trouble_makes_records_wait(
    registry: FakeRegistry, answer: dict[str, Any], says: str
) -> None:
    registry.token_answer = answer
    client = Registry(registry.url, auth=ClientCredentials(f"{registry.url}/token", "me", "x"))
    with pytest.raises(grete.RetryLater, match=says):
        client.schema(1)
    with pytest.raises(grete.RetryLater, match=r"is not asked, without a token of http://127\.0\.0\.1:1/token"):
        Registry(registry.url, auth=ClientCredentials(f"{NOWHERE}/token", "me", "x")).schema(1)
    assert registry.asked("GET") == []


def test_a_function_that_returns_a_token(registry: FakeRegistry) -> None:
    registry.register("orders-value", {"schema": json.dumps(ORDER)})
    registry.authorization = "Bearer mine"
    assert Registry(registry.url, auth=lambda: "mine").schema(1).id == 1


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"auth": "token"}, "auth is ClientCredentials or a function"),
        ({"ca": "/x.pem"}, r"Registry\(ca=\.\.\.\) is for https"),
        ({"url": "https://x", "key": "/x.pem"}, "needs the certificate, too: cert="),
        ({"url": "https://x", "cert": "/not/there.pem"}, r"Registry\(cert='/not/there\.pem'\): .*No such file"),
        ({"url": []}, "the address of a registry"),
        ({"url": "http://a:1,ftp://b"}, "the address of a registry"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(grete.ConfigError, match=rf"test_registry_client\.py:\d+: .*{says}"):
        Registry(**{"url": NOWHERE, **settings})


def test_a_context_for_tls_is_used() -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    assert Registry("https://x", ssl_context=context).url == "https://x"


# Several addresses


def test_another_address_answers(registry: FakeRegistry) -> None:
    registry.register("orders-value", {"schema": json.dumps(ORDER)})
    for urls in (f"{NOWHERE}, {registry.url}/", [NOWHERE, registry.url]):
        assert Avro(urls).decoder("orders")(b"\x00\x00\x00\x00\x01\x06") == {"id": 3}
    with FakeRegistry() as other:
        other.trouble = 503
        client = Registry([other.url, registry.url])
        for _ in range(3):
            assert client.schema(1).id == 1
        assert len(other.requests) == 1  # the one that answered is asked first from then on
        registry.trouble = 500
        with pytest.raises(grete.RetryLater, match=f"{other.url} answers 503"):
            client.schema(1)


# Errors


def test_what_the_registry_refuses(registry: FakeRegistry) -> None:
    client = Registry(registry.url)
    made = client.register("orders-value", text(ORDER))
    assert (made.id, made.version, made.guid) == (1, 1, registry.guid(1))
    assert client.lookup("orders-value", text(ORDER)).version == 1
    assert client.guid(registry.guid(1)).text == json.dumps(ORDER)
    assert client.latest("orders-value").version == client.version("orders-value", 1).version == 1
    with pytest.raises(
        grete.SchemaNotFoundError, match=r"version 7 of orders-value: Version 7 not found\. \(40402\)"
    ) as e:
        client.version("orders-value", 7)
    assert (e.value.status, e.value.code) == (404, 40402)
    with pytest.raises(grete.SchemaNotFoundError, match=r"\(40401\)"):
        client.lookup("orders-key", text(ORDER))
    with pytest.raises(grete.SchemaNotFoundError, match=r"\(40403\)"):
        client.lookup("orders-value", text(WITH_MORE))
    with pytest.raises(
        grete.IncompatibleSchemaError, match=r"READER_FIELD_MISSING_DEFAULT_VALUE.*\(40901\)"
    ) as conflict:
        client.register("orders-value", text(WITH_MORE))
    assert (conflict.value.status, conflict.value.subject) == (409, "orders-value")
    with pytest.raises(grete.RegistryError, match=r"Invalid schema of type AVRO.*\(42201\)") as invalid:
        client.register("orders-value", text({"type": "recordd"}))
    assert (invalid.value.status, invalid.value.code) == (422, 42201)
    compatibility = client.check("orders-value", text(WITH_MORE))
    assert not compatibility.compatible
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in compatibility.messages[0]
    assert client.check("new", text(ORDER), normalize=True).compatible
    registry.answer = b"{}"
    for call in (lambda: client.register("a", text(ORDER)), lambda: client.check("a", text(ORDER))):
        with pytest.raises(grete.RetryLater, match="does not answer like a schema registry"):
            call()


def test_nothing_is_registered_unless_it_is_allowed(registry: FakeRegistry) -> None:
    encode = Avro(registry.url, schema=ORDER).encoder("orders", "key")
    with pytest.raises(grete.SchemaNotFoundError) as caught:
        encode({"id": 3})
    assert str(caught.value) == (
        f"subject \"orders-key\" does not exist in Registry('{registry.url}'), and the key of topic orders is written "
        "with it: register it with `grete schemas register MODULE:APP`, or allow this program to with "
        "Avro(..., auto_register=True)"
    )
    assert caught.value.code == 40401
    registry.register("orders-key", {"schema": '"string"'})
    with pytest.raises(grete.SchemaNotFoundError, match='"orders-key" does not have the declared schema'):
        encode({"id": 3})
    assert registry.versions == {"orders-key": [1]}
    registry.register("orders-key", {"schema": json.dumps(ORDER)})
    assert encode({"id": 3}) == b"\x00\x00\x00\x00\x02\x06"
    with pytest.raises(grete.SchemaNotFoundError, match="does not exist"):
        Avro(registry.url, use_latest=True).encoder("clicks")({"id": 3})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Avro(NOWHERE).encoder("orders"), "encoding needs a schema: give type=, schema=, use_latest=True or"),
        (lambda: JsonSchema(NOWHERE).encoder("orders"), "encoding needs a schema"),
        (lambda: Protobuf(NOWHERE).encoder("orders"), "encoding needs the message"),
        (lambda: Protobuf(NOWHERE, "shop.Order").encoder("orders"), "encoding needs the message"),
        (lambda: Protobuf(NOWHERE, "a.B", descriptors=b"\xff"), "is no descriptor set: make it with protoc"),
        (lambda: Protobuf(NOWHERE, "a.B", descriptors=b""), "has no message a.B"),
        (lambda: Avro(NOWHERE, schema="{"), "schema is not JSON"),
        (lambda: Avro(NOWHERE, schema="order.avsc"), r"for a file write schema=Path\('order\.avsc'\)"),
        (lambda: Avro(NOWHERE, use_latest=True, id=3), "exclude each other"),
        (lambda: Avro(NOWHERE, subject="topic_name"), 'did you mean "TopicName"'),  # type: ignore[arg-type]
        (lambda: Avro(NOWHERE, subject="RecordNameStrategy"), 'did you mean "RecordName"'),  # type: ignore[arg-type]
        (lambda: Avro(NOWHERE, complex).encoder("orders"), "complex has no Avro schema"),
        (lambda: Avro(NOWHERE, dict[int, str]).encoder("orders"), "a map of Avro has strings as keys"),
    ],
)
def test_mistakes_in_declarations(make: Any, says: str) -> None:
    with pytest.raises(grete.ConfigError, match=rf"test_registry_client\.py:\d+: payloads\..*{says}|did you mean") as e:
        make()
    if "did you" in says:
        assert says in str(e.value)


def test_what_the_schema_does_not_have_is_not_lost(registry: FakeRegistry) -> None:
    encode = Avro(registry.url, schema=ORDER, auto_register=True).encoder("orders")
    with pytest.raises(EncodeError, match="record Order has no field more, which the value has"):
        encode({"id": 3, "more": 4})
    with pytest.raises(EncodeError, match="field id: the value is missing, and the field has no default"):
        encode({})
    schema = {"title": "Order", "type": "object", "properties": {"id": {"minimum": 0}}}
    check = JsonSchema(registry.url, schema=schema, auto_register=True).encoder("clicks")
    with pytest.raises(EncodeError, match=r"-1 is less than the minimum of 0 - at `\$\.id` of schema 2"):
        check({"id": -1})
    with pytest.raises(grete.RegistryError, match="names no GUID"):
        Avro(_WithoutGuid(registry.url), schema=ORDER, header=True).encoder("orders")({"id": 3})


class _WithoutGuid(Registry):
    def lookup(self, subject: str, schema: Schema, normalize: bool = False) -> Schema:
        found = super().lookup(subject, schema, normalize)
        return Schema(found.text, found.kind, found.references, found.id, None, found.subject, found.version)


class ReadOnly:
    """A user's own registry, with the methods that reading needs."""

    def schema(self, schema_id: int, form: str = "") -> Schema:
        return text(ORDER)

    def version(self, subject: str, version: int, form: str = "") -> Schema:
        raise LookupError(subject)


def test_a_registry_of_ones_own() -> None:
    own = ReadOnly()
    assert Avro(own).decoder("orders")(b"\x00\x00\x00\x00\x01\x06") == {"id": 3}
    assert Avro(own, id=7).encoder("orders")({"id": 3}) == b"\x00\x00\x00\x00\x07\x06"
    with pytest.raises(ValueError, match=r"names its schema by GUID 0{8}-.*, and <.*ReadOnly.*> has no guid\(\)"):
        Avro(own).decoder("orders")(b"\x01" + bytes(16) + b"\x06")
    with pytest.raises(grete.ConfigError, match="has no methods latest, lookup and register"):
        Avro(own, schema=ORDER).encoder("orders")
    with pytest.raises(grete.ConfigError, match="3 is no schema registry: give its address"):
        Avro(3)  # type: ignore[arg-type]


class Kind(enum.Enum):
    NEW = "new"


class Model(pydantic.BaseModel):
    kind: Kind
    kinds: list[Kind] = []


def test_pydantic_models_need_no_msgspec(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "msgspec" else real(name))
    for form in (Avro(registry.url, Model, auto_register=True), JsonSchema(registry.url, Model, auto_register=True)):
        encoded = form.encoder(form.kind)(Model(kind=Kind.NEW, kinds=[Kind.NEW]))
        assert encoded is not None
        assert form.decoder(form.kind)(encoded) == Model(kind=Kind.NEW, kinds=[Kind.NEW])


# What waits for what


def test_a_slow_registry_holds_up_no_handler(registry: FakeRegistry) -> None:
    registry.register("orders-value", {"schema": json.dumps(ORDER)})
    decode = Avro(registry.url).decoder("orders")
    assert decode(b"\x00\x00\x00\x00\x01\x06") == {"id": 3}
    registry.hold.clear()
    registry.register("orders-value", {"schema": json.dumps(WITH_MORE)})

    async def on_the_loop() -> None:
        for _ in range(3):
            with pytest.raises(grete.RetryLater, match="has not answered yet, and the request goes on") as caught:
                decode(b"\x00\x00\x00\x00\x02\x06\x08")
            assert caught.value.delay == 0.2
            # Records whose schema is known go on.
            assert decode(b"\x00\x00\x00\x00\x01\x06") == {"id": 3}

    asyncio.run(on_the_loop())
    registry.hold.set()
    assert decode(b"\x00\x00\x00\x00\x02\x06\x08") == {"id": 3, "more": 4}
    assert registry.asked("GET") == ["/schemas/ids/1", "/schemas/ids/2"]


def test_many_threads_look_up_once(registry: FakeRegistry) -> None:
    registry.register("orders-value", {"schema": json.dumps(ORDER)})
    encode = Avro(registry.url, schema=ORDER).encoder("orders")
    barrier = threading.Barrier(8)
    found: list[object] = []

    def run() -> None:
        barrier.wait(60)
        found.append(encode({"id": 3}))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [b"\x00\x00\x00\x00\x01\x06"] * 8
    assert registry.asked("POST") == ["/subjects/orders-value"]


def test_a_registry_that_is_down_makes_writers_wait() -> None:
    for form in (Avro(NOWHERE, schema=ORDER), Avro(NOWHERE, use_latest=True), Avro(NOWHERE, id=1)):
        with pytest.raises(grete.RetryLater, match=f"the schema registry {NOWHERE} does not answer"):
            form.encoder("orders")({"id": 3})


def test_the_cache_is_bounded_and_keeps_no_failures() -> None:
    made: list[int] = []

    def make(key: int) -> str:
        made.append(key)
        if key < 0:
            raise ValueError("negative")
        return str(key)

    cache = Cache(make, size=3, patience=60)
    assert [cache(key) for key in (1, 2, 3, 4)] == ["1", "2", "3", "4"]
    assert len(cache) == 3
    assert cache(4) == "4"
    assert cache(1) == "1"
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            cache(-1)
    assert made == [1, 2, 3, 4, 1, -1, -1]


def finish_requests() -> None:
    """Waits until no request to a registry is under way."""
    for thread in threading.enumerate():
        if thread.name == "grete-schema-registry":
            thread.join(60)


def test_an_old_entry_counts_until_there_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now, made, failing = 1000.0, 0, False
    monkeypatch.setattr("grete.payloads.schema_registry.cache.monotonic", lambda: now)

    def make(key: str) -> str:
        nonlocal made
        made += 1
        if failing:
            raise grete.RetryLater(1.0, "down")
        return f"{key}{made}"

    cache = Cache(make, life=10.0, patience=60)
    assert cache("v") == "v1"
    now, failing = 1011.0, True
    for _ in range(2):
        assert cache("v") == "v1"  # while the registry does not answer
        finish_requests()
    assert made == 2  # and it is not asked at once again
    failing, now = False, 1030.0
    cache("v")
    finish_requests()
    assert cache("v") == "v3"


def test_a_forked_child_asks_by_itself(registry: FakeRegistry) -> None:
    registry.hold.clear()
    registry.register("orders-value", {"schema": json.dumps(ORDER)})
    cache: Cache[str] = Cache(lambda key: Registry(registry.url).schema(key).text, patience=0.01)
    with pytest.raises(grete.RetryLater):
        cache(1)
    cache._pid = -1  # as in a child: the thread of the request is not there
    registry.hold.set()
    patient: Cache[str] = cache
    patient._patience = 60
    assert patient(1) == json.dumps(ORDER)
    assert os.getpid() == cache._pid
    assert len(registry.asked("GET")) == 2


def test_an_entry_that_was_made_since_a_thread_looked_is_not_made_again() -> None:
    made: list[int] = []

    def make(key: int) -> str:
        made.append(key)
        return str(key)

    cache = Cache(make)
    assert cache(3) == "3"
    # What a thread does that found no entry before.
    assert cache._wait_for(3) == "3"
    assert made == [3]
