"""Writes docs/grafana/grete.json: `python -m tests.unit.dashboard_page`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.unit.dashboard_panels import ROWS, Panel, Query

PAGE = Path(__file__).parents[2] / "docs" / "grafana" / "grete.json"
SCHEMA = 39
"""Grafana 10.4's; later ones migrate it when they import it."""
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH = 24


def dashboard() -> dict[str, Any]:
    """As Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": []})
        panels[-1]["gridPos"] = {"x": 0, "y": y, "w": _WIDTH, "h": 1}
        y += 1
        x = deepest = 0
        for panel in row:
            if x + panel.width > _WIDTH:
                x, y, deepest = 0, y + deepest, 0
            panels.append({"id": len(panels) + 1, **_panel(panel)})
            panels[-1]["gridPos"] = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            x, deepest = x + panel.width, max(deepest, panel.height)
        y += deepest
    return {
        "__inputs": [],
        "__requires": [
            {"type": "grafana", "id": "grafana", "name": "Grafana", "version": "10.0.0"},
            {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": "1.0.0"},
        ],
        "uid": "grete",
        "title": "Grete",
        "description": "Kafka processing with Grete: lag, throughput, handlers, groups, producers, processes, swarm.",
        "tags": ["grete", "kafka"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "30s",
        "timezone": "browser",
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }


def _variables() -> Iterable[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "options": [],
        "refresh": 1,
        "regex": "",
    }
    asked = {
        "job": "label_values(grete_info, job)",
        "instance": 'label_values(grete_info{job=~"$job"}, instance)',
        "node": 'label_values(grete_info{job=~"$job", instance=~"$instance"}, node)',
        "handler": 'label_values(grete_jobs_total{job=~"$job", instance=~"$instance"}, handler)',
        "topic": 'label_values(grete_lag_records{job=~"$job", instance=~"$instance", handler=~"$handler"}, topic)',
    }
    for name, query in asked.items():
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": _SOURCE,
            "definition": query,
            "query": {"query": query, "refId": name},
            "includeAll": True,
            # What has no such label (a process outside of a swarm has no node) is among all.
            "allValue": ".*",
            "multi": True,
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
            "hide": 0,
            "options": [],
            "refresh": 2,
            "regex": "",
            "sort": 3 if name == "node" else 1,
        }


def _panel(panel: Panel) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": _SOURCE,
        "targets": [_target(panel, number, query) for number, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel) | panel.options,
    }
    if panel.kind == "table":
        made["transformations"] = [
            {"id": "organize", "options": {"excludeByName": {"Time": True, "__name__": True, "job": True}}}
        ]
    return made


def _target(panel: Panel, number: int, query: Query) -> dict[str, Any]:
    formats = {"heatmap": "heatmap", "table": "table"}
    return {
        "refId": chr(ord("A") + number),
        "datasource": _SOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "format": formats.get(panel.kind, "time_series"),
        "instant": panel.kind == "table",
        "range": panel.kind != "table",
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    steps = [{"color": color, "value": None if at == 0 else at} for at, color in panel.lines or ((0.0, "green"),)]
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 10,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    return defaults


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "stat":
            reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
            return {"reduceOptions": reduced, "colorMode": "value", "graphMode": "area", "textMode": "auto"}
        case "heatmap":
            return {
                "calculate": False,
                "yAxis": {"unit": "s", "axisPlacement": "left"},
                "rowsFrame": {"layout": "auto"},
                "color": {"mode": "scheme", "scheme": "Spectral", "steps": 64, "reverse": True, "exponent": 0.5},
                "cellGap": 1,
                "filterValues": {"le": 1e-9},
                "legend": {"show": True},
                "tooltip": {"mode": "single", "yHistogram": False, "show": True},
            }
        case "table":
            return {"showHeader": True, "sortBy": [{"displayName": "Value", "desc": True}]}
        case _:
            return {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }


def text() -> str:
    """The file."""
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text())
