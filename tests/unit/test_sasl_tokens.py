"""Bearer tokens: what sources return, where they come from, and the thread that keeps them fresh."""

from __future__ import annotations

import base64
import datetime
import itertools
import json
import logging
import os
import socket
import ssl
import threading
import time
import types
import urllib.error
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import grete
from grete import _native
from grete._config import layers
from grete._sasl import endpoint as endpoints
from grete._sasl import refresher, sources, token
from tests.kafka import eventually

NOW = 1_700_000_000.0


def jwt(**claims: object) -> str:
    def encode(part: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")

    return f"{encode({'alg': 'none'})}.{encode(claims)}."


def fields(**given: object) -> dict[str, Any]:
    empty = dict.fromkeys(("preset", "provider", "endpoint", "client_id", "client_secret", "scope", "file"), "")
    return {**empty, "extensions": [], "host": "b1", **given}


@pytest.mark.parametrize(
    ("result", "expires_at", "extensions"),
    [
        ("opaque", NOW + token.DEFAULT_LIFE, ()),
        (b"opaque\n", NOW + token.DEFAULT_LIFE, ()),
        (jwt(exp=NOW + 60), NOW + 60, ()),
        (("t", NOW + 60), NOW + 60, ()),
        (("t", (NOW + 60) * 1000), NOW + 60, ()),
        (("t", datetime.datetime.fromtimestamp(NOW + 60, datetime.UTC)), NOW + 60, ()),
        (("t", NOW + 60, "alice", {"a": "b"}), NOW + 60, (("a", "b"),)),
        ({"access_token": "t", "expires_in": "60"}, NOW + 60, ()),
        ({"access_token": "t"}, NOW + token.DEFAULT_LIFE, ()),
        (types.SimpleNamespace(token="t", expires_on=NOW + 60), NOW + 60, ()),
    ],
)
def test_a_source_may_return_what_other_clients_take(
    result: object, expires_at: float, extensions: tuple[tuple[str, str], ...]
) -> None:
    found = token.from_result(result, NOW)
    assert found.expires_at == pytest.approx(expires_at)
    assert found.extensions == extensions
    assert "value" not in repr(found)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (None, "nothing"),
        ("", "nothing"),
        ({}, "nothing"),
        (7, "type int"),
        (("t", "soon"), "no number"),
        (("t", NOW - 5), "expired 5 s ago"),
        (("t", NOW + 5, "p", "s3cret"), "extensions"),
        ({"access_token": "s3cret", "expires_in": -1}, "above 0"),
        (jwt(exp=NOW - 60), "expired 60 s ago"),
    ],
)
def test_garbage_is_named_and_not_repeated(result: object, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        token.from_result(result, NOW)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "needs a source of tokens"),
        ({"file": "/t", "endpoint": "https://x/"}, "endpoint and file"),
        ({"provider": "no.such.module:f"}, "is no function"),
        ({"provider": "json"}, "is no function"),
        ({"provider": "json:__name__"}, "cannot be called"),
        ({"preset": "aws_msk_iam"}, "region"),
        ({"preset": "azure"}, r"pip install 'grete\[azure\]'"),
    ],
)
def test_what_is_missing_is_named(given: dict[str, object], says: str) -> None:
    with pytest.raises(grete.ConfigError, match=says):
        sources.source_of(fields(**given))


def test_a_token_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    _, fetch = sources.source_of(fields(file=str(path)))
    for number in ("1", "2"):
        claims = base64.urlsafe_b64encode(f'{{"exp": {int(NOW) + 86_400}, "n": {number}}}'.encode()).decode()
        path.write_text(f"e30.{claims}.\n")
        found = token.from_result(fetch(), NOW)
        assert isinstance(found.value, _native.NativeToken)  # Python never has its text
        assert found.value.claims() == f'{{"exp": {int(NOW) + 86_400}, "n": {number}}}'
        assert found.expires_at == int(NOW) + 86_400
        assert claims not in repr(found)
    path.write_text("opaque")
    assert token.from_result(fetch(), NOW).expires_at == NOW + token.DEFAULT_LIFE
    path.write_text(" \n")
    with pytest.raises(ValueError, match="it is empty"):
        fetch()


def test_a_preset_calls_the_library_of_the_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    regions: list[str] = []

    class Provider:
        @staticmethod
        def generate_auth_token(region: str) -> tuple[str, int]:
            regions.append(region)
            return "signed", int((time.time() + 900) * 1000)

    library = types.SimpleNamespace(MSKAuthTokenProvider=Provider)
    monkeypatch.setattr("grete._sasl.presets.importlib.import_module", lambda name: library)
    host = "b-1.shop.abc123.c2.kafka.eu-west-1.amazonaws.com"
    _, fetch = sources.source_of(fields(preset="aws_msk_iam", host=host))
    found = token.from_result(fetch())
    assert (found.value, regions) == ("signed", ["eu-west-1"])
    assert 800 < found.expires_at - time.time() < 901


def test_a_function_is_a_setting_in_all_layers_and_its_name_is_one_too() -> None:
    def provide() -> str:
        return "from a closure"

    async def provide_later() -> str:
        return "from a coroutine"

    for provider, value in ((provide, "from a closure"), (provide_later, "from a coroutine")):
        pairs = layers.client_config_pairs({sources.PROVIDER: provider})
        assert isinstance(pairs[0][1], str)
        _, fetch = sources.source_of(fields(provider=pairs[0][1]))
        assert fetch() == value
    assert sources.register(provide) == sources.register(provide) != sources.register(provide_later)
    _, fetch = sources.source_of(fields(provider="os:getcwd"))
    assert isinstance(fetch(), str)
    with pytest.raises(grete.ConfigError, match="string"):
        layers.client_config_pairs({"sasl.username": provide})


class Source:
    """A source whose results a test decides."""

    def __init__(self) -> None:
        self.results: list[object] = []
        self.calls = 0
        self.called = threading.Condition()

    def __call__(self) -> object:
        with self.called:
            self.calls += 1
            self.called.notify_all()
            result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, threading.Event):
            result.wait(60)
            result = "late"
        if isinstance(result, Exception):
            raise result
        return result


def is_refreshed(provider: str) -> bool:
    """Returns whether a thread refreshes the tokens of this provider. Clients of other tests may have theirs yet."""
    return any(one._name.endswith(f" {provider}") for one in list(refresher._refreshers.values()))


def test_a_token_is_renewed_and_an_outage_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refresher, "_BACKOFF", 0.02)
    monkeypatch.setattr(refresher, "_CHECK_INTERVAL", 0.05)
    source = Source()
    source.results = [("a", time.time() + 0.5), OSError("down"), None, ("not a token\x01", time.time() + 60), "b"]
    caplog.set_level(logging.INFO, "grete.client")
    states: list[object] = []

    class Store:
        def set(self, value: str, extensions: object, subject: object, validity: str) -> None:
            if "\x01" in value:
                raise ValueError("the token has a character that bearer tokens do not have")
            states.append(value)

        def fail(self, reason: str, lasts: bool) -> None:
            states.append(reason)

        def users(self) -> int:
            return 0 if "b" in states else 1

        def refused(self) -> bool:
            return False

    monkeypatch.setattr("grete._native.TokenStore", Store)
    name = sources.register(source)
    refresher.tokens_of(fields(provider=name))
    eventually(lambda: "b" in states, 20.0, lambda: f"the second token: {states}")
    assert states[0] == "a"
    assert source.calls >= 5
    assert [record.levelname for record in caplog.records if "gives no token" in record.message] == ["ERROR"]
    assert any("gives tokens again" in record.message for record in caplog.records)
    eventually(lambda: not is_refreshed(name), 20.0, "the end of the thread after its last client")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError(), True),
        (TimeoutError(), True),
        (socket.gaierror(), True),
        (urllib.error.URLError(ConnectionResetError()), True),
        (urllib.error.URLError(ssl.SSLCertVerificationError()), False),
        (endpoints.UnavailableError("it answers 503"), True),
        (ValueError("it answers 401"), False),
        (FileNotFoundError(), False),
        (PermissionError(), False),
        (TypeError(), False),
    ],
)
def test_failures_that_pass_by_themselves_are_known(error: Exception, expected: bool) -> None:
    assert endpoints.passes(error) is expected


@pytest.mark.parametrize(("error", "lasts"), [(ConnectionRefusedError("down"), False), (TypeError("defect"), True)])
def test_only_a_defect_of_the_source_lasts(monkeypatch: pytest.MonkeyPatch, error: Exception, lasts: bool) -> None:
    monkeypatch.setattr(refresher, "_BACKOFF", 0.02)
    monkeypatch.setattr(refresher, "_CHECK_INTERVAL", 0.05)
    given: list[bool] = []

    class Store:
        def fail(self, reason: str, lasts: bool) -> None:
            given.append(lasts)

        def users(self) -> int:
            return int(len(given) < 6)

        def refused(self) -> bool:
            return False

    monkeypatch.setattr("grete._native.TokenStore", Store)
    source = Source()
    source.results = [error] * 100
    name = sources.register(source)
    refresher.tokens_of(fields(provider=name))
    eventually(lambda: len(given) >= 6, 20.0, lambda: f"six failures: {given}")
    assert given[:2] == [False, False]
    assert set(given[2:]) == {lasts}
    eventually(lambda: not is_refreshed(name), 20.0, "the end of the thread after its last client")


def test_a_token_that_a_broker_refuses_is_replaced_with_a_backoff(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refresher, "_BACKOFF", 0.1)
    monkeypatch.setattr(refresher, "_CHECK_INTERVAL", 0.02)
    times: list[float] = []

    class Store:
        def set(self, value: str, extensions: object, subject: object, validity: str) -> None:
            assert subject == "alice"
            times.append(time.monotonic())

        def users(self) -> int:
            return int(len(times) < 5)

        def refused(self) -> bool:
            return len(times) < 4

    monkeypatch.setattr("grete._native.TokenStore", Store)
    name = sources.register(source := Source())
    source.results = [jwt(sub="alice", exp=time.time() + 600)] * 100
    refresher.tokens_of(fields(provider=name))
    eventually(lambda: len(times) == 4, 20.0, lambda: f"a token that is accepted: {times}")
    waits = [later - before for before, later in itertools.pairwise(times)]
    assert all(wait >= least for wait, least in zip(waits, (0.1, 0.2, 0.4), strict=True)), waits
    refused = [record.levelname for record in caplog.records if "has refused the token" in record.message]
    assert refused == ["ERROR"]
    assert len(times) == 4, "an accepted token lasts"
    times.append(0.0)
    eventually(lambda: not is_refreshed(name), 20.0, "the end of the thread after its last client")


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"exp": NOW + 60}, "is valid until 2023-11-14 22:14:20 UTC, and came at 2023-11-14 22:13:20 UTC"),
        ({"iat": NOW - 60, "exp": NOW + 60}, "from 2023-11-14 22:12:20 UTC until 2023-11-14 22:14:20 UTC"),
        ({"nbf": NOW + 90, "exp": NOW + 600}, "by this machine's clock the token is not valid for another 90 s"),
        ({"iat": NOW + 30, "nbf": "soon", "exp": NOW + 600}, "not valid for another 30 s: set this clock"),
        ({"exp": 1e300}, "until a day beyond the year 9999"),
    ],
)
def test_the_times_of_a_token_are_named_beside_this_machines_clock(claims: dict[str, object], says: str) -> None:
    assert says in token.from_result(jwt(**claims), NOW).validity


def test_the_text_of_a_source_shows_no_token() -> None:
    value = jwt(sub="alice", exp=NOW) + "c2lnbmF0dXJl"
    for text in (f"bad token {value}", f"{value} is bad", f"cut: {value[:60]}"):
        shown = refresher._text_of(RuntimeError(text))
        assert "********" in shown
        assert value.split(".")[1][:10] not in shown


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "error", [OSError(os.fsdecode(b"/run/\xff")), UnreadableError(), ValueError("a\nb\x1b[0m" * 1000)]
)
def test_whatever_a_source_raises_is_one_line_and_the_next_token_comes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level(logging.INFO, "grete.client")
    monkeypatch.setattr(refresher, "_BACKOFF", 0.02)
    monkeypatch.setattr(refresher, "_CHECK_INTERVAL", 0.05)
    source = Source()
    source.results = [error, "b"]
    name = sources.register(source)
    store = refresher.tokens_of(fields(provider=name))
    eventually(lambda: any("gives tokens again" in record.message for record in caplog.records), 20.0, "a token")
    (line,) = [record.message for record in caplog.records if "gives no token" in record.message]
    assert line.encode()
    assert len(line.splitlines()) == 1
    assert len(line) < 800
    del store
    eventually(lambda: not is_refreshed(name), 20.0, "the end of the thread after its last client")


def test_a_thread_that_cannot_start_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    name = sources.register(Source())
    given = fields(provider=name)
    with monkeypatch.context() as patched:
        patched.setattr(threading, "Thread", NoThread)
        with pytest.raises(RuntimeError, match="can't start"):
            refresher.tokens_of(given)
    assert not is_refreshed(name)


def test_a_bound_method_is_one_source() -> None:
    source = Source()
    assert sources.register(source.__call__) == sources.register(source.__call__)


def test_a_source_that_hangs_is_named_and_its_last_token_expires(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refresher, "_BACKOFF", 0.02)
    monkeypatch.setattr(refresher, "_CHECK_INTERVAL", 0.02)
    monkeypatch.setattr(refresher, "_HANGS_AFTER", 0.1)
    release = threading.Event()
    source = Source()
    source.results = [("a", time.time() + 0.5), release]
    states: list[str] = []
    users = [1]
    store = types.SimpleNamespace(
        set=lambda value, *_: states.append(value),
        fail=lambda reason, _: states.append(reason),
        users=lambda: users[0],
        refused=lambda: False,
    )
    monkeypatch.setattr("grete._native.TokenStore", lambda: store)
    name = sources.register(source)
    refresher.tokens_of(fields(provider=name))
    eventually(lambda: any("has expired" in state for state in states), 20.0, lambda: f"the expiry: {states}")
    assert any("has not answered" in record.message for record in caplog.records)
    release.set()
    eventually(lambda: "late" in states, 20.0, "the token that came late")
    users[0] = 0
    eventually(lambda: not is_refreshed(name), 20.0, "the end of the thread")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.sampled_from(["access_token", "expires_in"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(_json | st.tuples(_json, _json) | st.tuples(_json, _json, _json, _json) | st.binary())
@example({"access_token": "a", "expires_in": 10**400})
@example(("a", 10**400))
@example("x." + base64.urlsafe_b64encode(b'{"exp": 1' + b"0" * 400 + b"}").decode() + ".y")
def test_whatever_a_source_returns_is_a_token_or_a_value_error(result: object) -> None:
    try:
        found = token.from_result(result, 1_000_000.0)
    except ValueError:
        return
    assert isinstance(found.value, str)
    assert found.value.isascii()
    assert 1_000_000.0 < found.expires_at < float("inf")
