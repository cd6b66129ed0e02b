"""Blocks of docs/security.md for a cluster of one's own, tried as the page says: `grete dev`, then `grete doctor`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.integration.dev_process import DevRun
from tests.integration.test_doctor import doctor
from tests.kafka.jars import ROOT
from tests.kafka.secrets import secret

pytestmark = pytest.mark.kafka

PAGE = (ROOT / "docs" / "security.md").read_text()
PASSWORD = secret("billing")


def block(mark: str) -> str:
    """The block of `grete.toml` that has this setting, and brokers of the user's own."""
    blocks: list[str] = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return next(text for text in blocks if mark in text and "kafka-1.example.com" in text)


def words_of(mark: str) -> list[str]:
    """Words of the page's `grete dev` line that has this option, without its port."""
    line = next(line for line in PAGE.splitlines() if line.startswith("    grete dev ") and mark in line)
    words = line.partition("#")[0].replace("billing:PASSWORD", f"billing:{PASSWORD}").split()[2:]
    at = words.index("--port")
    return words[:at] + words[at + 2 :]


@pytest.mark.parametrize(
    ("setting", "option", "files"),
    [
        ("sasl.password.file", "--sasl", {"/etc/kafka/ca.pem": "tls/ca.pem"}),
        (
            "ssl.key.location",
            "--mutual-tls",
            {
                "/etc/kafka/ca.pem": "tls/ca.pem",
                "/etc/kafka/client.crt": "tls/client.pem",
                "/etc/kafka/client.key": "tls/client.pem",
            },
        ),
    ],
)
def test_a_block_of_the_page_works(tmp_path: Path, setting: str, option: str, files: dict[str, str]) -> None:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    with DevRun(tmp_path, *words_of(option)) as dev:
        text = re.sub(r"kafka-1\.example\.com:9093(,\S+:9093)?", dev.bootstrap_servers, block(setting))
        for name, file in {**files, "/etc/kafka/password": "password"}.items():
            text = text.replace(name, file)
        (tmp_path / "grete.toml").write_text(text)
        status, findings = doctor({}, "--topic", "orders", cwd=tmp_path)
        assert status == 0, json.dumps(findings, indent=1)
        assert findings[-1]["step"] == "topic"
        assert PASSWORD not in dev.output
        if option == "--sasl":
            assert "sasl.mechanism=SCRAM-SHA-512 sasl.username=billing, with the password of --sasl" in dev.output
