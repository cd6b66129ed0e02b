"""docs/sasl.md: its snippets run, and its blocks to copy are complete settings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import grete
from grete import _native

PAGE = (Path(__file__).parents[2] / "docs" / "sasl.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def check(kafka: dict[str, str]) -> None:
    """Raises ConfigError for what no client would take; secrets, which are not on the page, are added."""
    secrets = {"PLAIN": "sasl.password", "OAUTHBEARER": "sasl.oauthbearer.client.secret"}
    name = secrets.get(kafka["sasl.mechanism"], "sasl.password")
    if not kafka["sasl.mechanism"].isalpha() or kafka["sasl.mechanism"] in secrets:
        kafka = {**kafka, name: "x"} if name != "sasl.password" or "sasl.username" in kafka else kafka
    _native.config_entries([(key, value) for key, value in kafka.items() if key != "ssl.ca.location"])


def test_the_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for code in blocks("python"):
        exec(compile(code, "docs/sasl.md", "exec"), {})
    assert "orders" in capsys.readouterr().out


def test_the_blocks_to_copy_are_complete() -> None:
    found = [tomllib.loads(text)["kafka"] for text in blocks("toml")]
    assert {kafka["sasl.mechanism"] for kafka in found} == {
        "PLAIN",
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
        "OAUTHBEARER",
        "AWS_MSK_IAM",
        "AZURE",
        "GCP",
        "GSSAPI",
    }
    for kafka in found:
        check(kafka)
        without = {key: value for key, value in kafka.items() if key not in ("sasl.username", "sasl.mechanism")}
        with pytest.raises(grete.ConfigError, match=r"sasl\.mechanism"):
            _native.config_entries([(key, value) for key, value in without.items() if key != "ssl.ca.location"])
