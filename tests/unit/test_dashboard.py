"""The dashboard for Grafana and the rules for Prometheus ask for what there is."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit import dashboard_page, promql
from tests.unit.exposition import CATALOGUE, Exposition

RULES = Path(__file__).parents[2] / "docs" / "alerts" / "grete.rules.yml"
SEVERITIES = {"page", "ticket"}


def panels() -> list[dict[str, Any]]:
    """All that show something, from the file."""
    dashboard: dict[str, Any] = json.loads(dashboard_page.PAGE.read_text())
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def rules() -> list[dict[str, Any]]:
    """All alerts, from the file."""
    content: dict[str, Any] = yaml.safe_load(RULES.read_text())
    return [rule for group in content["groups"] for rule in group["rules"]]


def expressions() -> list[str]:
    """All that is asked for: panels, variables, alerts."""
    dashboard: dict[str, Any] = json.loads(dashboard_page.PAGE.read_text())
    variables = [one["definition"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    asked = [match[1] for one in variables if (match := re.fullmatch(r"label_values\((.*), \w+\)", one))]
    assert len(asked) == len(variables)
    return [
        *(target["expr"] for panel in panels() for target in panel["targets"]),
        *asked,
        *(rule["expr"] for rule in rules()),
    ]


def test_the_file_is_what_the_panels_say() -> None:
    assert dashboard_page.PAGE.read_text() == dashboard_page.text(), "python -m tests.unit.dashboard_page"


@pytest.mark.parametrize("expression", expressions())
def test_what_is_asked_for_is_in_the_catalogue(expression: str) -> None:
    assert list(promql.wrong(expression)) == []


def test_unknown_metrics_and_labels_are_found() -> None:
    for text, said in {
        "grete_lag": "there is no grete_lag",
        'rate(grete_jobs_total{topic="x"}[5m])': "grete_jobs_total has no label topic",
        "sum by (partition) (grete_live)": "nothing in it has a label partition",
        "grete_handler_duration_seconds": "there is no grete_handler_duration_seconds",
        "grete_live_bucket": "there is no grete_live_bucket",
        "1 + 1": "asks for nothing",
        "grete_lag_records and on (le) grete_live": "nothing in it has a label le",
    }.items():
        assert [one.removeprefix(f"{text}: ") for one in promql.wrong(text)] == [said]
    with pytest.raises(AssertionError, match="expected type"):
        promql.parse("rate(grete_jobs_total)")
    live = Exposition("# HELP grete_live x\n# TYPE grete_live gauge\ngrete_live 1\n")
    assert list(promql.wrong("grete_live", live)) == []
    assert list(promql.wrong("grete_live{node='1'}", live)) == ["grete_live{node='1'}: grete_live has no label node"]
    assert list(promql.wrong("grete_ready", live)) == ["grete_ready: there is no grete_ready"]


def test_each_metric_has_a_panel() -> None:
    asked = {
        Exposition.family(name)
        for panel in panels()
        for one in panel["targets"]
        for name, _ in promql.selectors(promql.parse(one["expr"]))
    }
    assert asked == set(CATALOGUE)


def test_panels_are_whole_and_have_room() -> None:
    found = panels()
    dashboard = json.loads(dashboard_page.PAGE.read_text())
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert len({panel["title"] for panel in found}) == len(found)
    for panel in found:
        assert panel["description"]
        assert panel["targets"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        for target in panel["targets"]:
            assert target["expr"].strip()
            # What a series is called by is what it is grouped by.
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert shown <= promql.labels(promql.parse(target["expr"])) | promql.TARGET, target
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in combinations([panel["gridPos"] for panel in dashboard["panels"]], 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def test_each_variable_is_used_and_each_use_is_of_one() -> None:
    dashboard = json.loads(dashboard_page.PAGE.read_text())
    names = {one["name"] for one in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(dashboard["panels"])))
    assert used == names
    assert {"datasource", "handler", "topic", "node"} <= names


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_says_what_to_do(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch("Grete[A-Za-z]+", rule["alert"])
    assert rule["labels"]["severity"] in SEVERITIES
    assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s"))
    assert set(rule["annotations"]) == {"summary", "description"}
    assert len(rule["annotations"]["description"]) > 30
    # Labels that the text shows are there: by aggregation, or because the series has them.
    tree = promql.parse(rule["expr"])
    by = promql.labels(tree) or {"job", "instance", "node", *CATALOGUE[promql.selectors(tree)[0][0]][2]}
    shown = set(re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values())))
    assert shown <= by


def test_rules_have_names_of_their_own() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    said = RULES.read_text() + (RULES.parents[1] / "observing.md").read_text()
    assert set(re.findall(r"\bGrete[A-Z]\w+", said)) <= set(names), "alerts that are spoken of are there"
