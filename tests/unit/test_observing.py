"""What the pages about watching Grete speak of is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from grete._cli import COMMANDS
from grete.instrumentation import events
from tests.unit.exposition import CATALOGUE

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("metrics.md", "observing.md", "alerts/grete.rules.yml", "grafana/grete.json")
_AREAS = "|".join(sorted({name.partition(".")[0] for name in events.EVENTS}))


@pytest.mark.parametrize("page", PAGES)
def test_events_metrics_and_commands_are_there(page: str) -> None:
    text = (DOCS / page).read_text()
    named = set(re.findall(rf"(?<![\w./-])(?:{_AREAS})\.[a-z_]+(?:\.[a-z_]+)?(?![\w/(=-]|\.\w)", text))
    assert {one for one in named if one not in events.EVENTS} - {"group.instance.id", "swarm.md"} == set()
    metrics = {one.rstrip("_") for one in re.findall(r"\bgrete_[a-z_]+", text)}
    parts = {f"{name}_bucket" for name, (kind, _, _) in CATALOGUE.items() if kind == "histogram"}
    assert metrics <= CATALOGUE.keys() | parts
    commands = set(re.findall(r"`grete ([a-z]+)\b", text))
    assert commands <= set(COMMANDS)


def test_snippets_are_yaml() -> None:
    snippets = re.findall(r"```yaml\n(.*?)```", (DOCS / "observing.md").read_text(), flags=re.DOTALL)
    documents = [document for snippet in snippets for document in yaml.safe_load_all(snippet)]
    assert len(documents) == 3
    (container,) = documents[1]["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]} | {port["containerPort"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
