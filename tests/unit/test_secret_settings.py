"""Passwords that cannot be used: errors name the setting and its origin, and hold no part of the value."""

import traceback
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import grete
from grete._cli import main as cli
from grete._config import layers
from grete._sasl import token
from grete.client import Producer

LOGIN = {
    "bootstrap.servers": "127.0.0.1:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
}


def everything(error: BaseException) -> str:
    """Returns all that a log could show of an error: texts, arguments and attributes of it and of its contexts."""
    texts = ["".join(traceback.format_exception(error))]
    one: BaseException | None = error
    while one is not None:
        texts += [repr(one.args), repr(vars(one))]
        one = one.__cause__ or one.__context__
    return ascii("".join(texts))


@pytest.mark.parametrize("value", ["hunter2\udce9", ["hunter2\udce9", "x"]])
def test_a_password_that_is_not_utf8_is_in_no_part_of_the_error(value: Any) -> None:
    with pytest.raises(grete.ConfigError, match=r"sasl.password \(from code\) is not UTF-8") as caught:
        Producer({**LOGIN, "sasl.password": value})
    assert "hunter2" not in everything(caught.value)
    assert caught.value.setting == "sasl.password"


def test_a_variable_that_is_not_utf8_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRETE_KAFKA_SASL_PASSWORD", "hunter2\udce9")
    with pytest.raises(grete.ConfigError, match="GRETE_KAFKA_SASL_PASSWORD") as caught:
        Producer.from_config(LOGIN)
    assert "hunter2" not in everything(caught.value)


def test_a_token_that_is_not_ascii_is_in_no_part_of_the_error() -> None:
    value = "hunter2\udce9"
    with pytest.raises(ValueError, match="a character that bearer tokens do not have") as caught:
        token.from_result(value)
    assert "hunter2" not in everything(caught.value)


def test_a_password_beside_a_file_is_an_error_that_names_both_origins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("fresh")
    (tmp_path / "grete.toml").write_text('[kafka]\n"sasl.password.file" = "secret"\n')
    monkeypatch.setenv("GRETE_KAFKA_SASL_PASSWORD", "stale")
    both = r"sasl.password and sasl.password.file are both set: leave out one .*GRETE_KAFKA_SASL_PASSWORD.* grete.toml"
    with pytest.raises(grete.ConfigError, match=both) as caught:
        layers.resolve_config(layers.parse_layer({}, LOGIN, "code"), layers.Layer())
    assert "stale" not in everything(caught.value)
    monkeypatch.setenv("GRETE_KAFKA_SASL_PASSWORD", "")  # counts as not set
    layers.resolve_config(layers.parse_layer({}, LOGIN, "code"), layers.Layer())


@pytest.mark.parametrize(
    "words", ["sasl.password hunter2", "sasl.password: hunter2 x", "=hunter2", "sasl.password\thunter2"]
)
def test_an_option_without_its_equals_sign_shows_no_secret(words: str) -> None:
    for given in (["info", "-k", words], ["topics", "create", "x", "--config", words]):
        done = CliRunner().invoke(cli, [*given, "--bootstrap", "127.0.0.1:1"])
        assert done.exit_code == 2
        assert "takes NAME=VALUE" in done.output
        assert "hunter2" not in done.output


def test_the_query_of_an_address_is_masked() -> None:
    name = "sasl.oauthbearer.token.endpoint.url"
    assert layers.mask(name, "https://idp/token?key=hunter2&a\nb") == f"https://idp/token?{layers.MASK}"
    assert layers.mask(name, "https://idp/token") == "https://idp/token"
