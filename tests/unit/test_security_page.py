"""docs/security.md: its snippets run, and its tables name all settings and all reasons."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import grete
from grete import _native

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for code in blocks("python"):
        exec(compile(code, "docs/security.md", "exec"), {})
    assert "orders" in capsys.readouterr().out


def test_the_blocks_to_copy_are_settings_that_exist() -> None:
    found = [tomllib.loads(text)["kafka"] for text in blocks("toml")]
    assert len(found) == 4
    for kafka in found:
        pairs = {**kafka, "bootstrap.servers": "host:9093"}
        if pairs["security.protocol"] == "SSL":  # SASL is checked by the tests of SASL
            _native.config_entries(list(pairs.items()))


def test_the_tables_are_complete() -> None:
    names = {name for name, _, _ in _native.config_entries([("bootstrap.servers", "a:1")])}
    named = set(re.findall(r"`([a-z.]+)`", PAGE))
    assert {name for name in names if name.startswith(("ssl.", "security.", "enable.ssl"))} <= named
    documentation = grete.TlsError.__doc__ or ""
    for reason in re.findall(r'"([a-z_]+)"', documentation):
        assert f"`{reason}`" in PAGE or reason == "bad_certificate", reason
