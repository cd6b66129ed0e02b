"""docs/client.md: what it shows is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grete.client import Producer
from tests.kafka import KafkaCluster

pytestmark = pytest.mark.kafka
PAGE = Path(__file__).parents[2] / "docs" / "client.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_page_has_snippets() -> None:
    assert len(SNIPPETS) >= 5


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_runs(
    snippet: str,
    kafka: KafkaCluster,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    kafka.create_topic(topic, partitions=2)
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        producer.produce_many(topic, [(b"key-%d" % number, b"value-%d" % number) for number in range(300)]).wait()
    code = snippet.replace("localhost:9092", kafka.bootstrap_servers)
    code = code.replace('"orders"', f'"{topic}"').replace('"invoices"', f'"{topic}.invoices"')
    exec(compile(code, str(PAGE), "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out or "print" not in snippet
