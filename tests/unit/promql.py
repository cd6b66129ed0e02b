"""What a PromQL expression asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import promql_parser

from tests.unit.exposition import CATALOGUE, Exposition

# What Prometheus adds to all that it scrapes.
TARGET = frozenset({"job", "instance"})


def parse(text: str) -> Any:
    """The expression's tree; Grafana's variables are filled in before. AssertionError: it is none."""
    filled = re.sub(r"\$__(rate_interval|interval|range)", "5m", text)
    filled = re.sub(r"\$\w+", "x", filled)
    try:
        return promql_parser.parse(filled)
    except ValueError as error:
        raise AssertionError(f"{text}: {error}") from None


def selectors(tree: Any) -> list[tuple[str, set[str]]]:
    """Each metric that is asked for, and the labels by which it is."""
    found: list[tuple[str, set[str]]] = []

    def visit(node: Any) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            assert node.name, f"{node} names no metric"
            found.append((node.name, {matcher.name for matcher in node.matchers.matchers}))

    _walk(tree, visit)
    return found


def labels(tree: Any) -> set[str]:
    """All labels by which something is grouped or matched."""
    found: set[str] = set()

    def visit(node: Any) -> None:
        modifier = getattr(node, "modifier", None)
        if isinstance(node, promql_parser.AggregateExpr) and modifier is not None:
            found.update(modifier.labels)
        elif isinstance(node, promql_parser.BinaryExpr) and modifier is not None:
            found.update(modifier.matching.labels if modifier.matching else ())
            found.update(modifier.group_labels or ())

    _walk(tree, visit)
    return found


def wrong(text: str, live: Exposition | None = None) -> Iterator[str]:
    """Metrics that the expression selects and nothing exports, by the catalogue or by a live `/metrics`."""
    tree = parse(text)
    asked = selectors(tree)
    if not asked:
        yield f"{text}: asks for nothing"
    exported: set[str] = set()
    for name, by in asked:
        known = _labels(name, live)
        if known is None:
            yield f"{text}: there is no {name}"
            continue
        exported |= known
        if strange := by - known - TARGET:
            yield f"{text}: {name} has no label {', '.join(sorted(strange))}"
    if strange := labels(tree) - exported - TARGET:
        yield f"{text}: nothing in it has a label {', '.join(sorted(strange))}"


def _labels(name: str, live: Exposition | None) -> set[str] | None:
    if live is not None:
        found = live.of(name)
        return {label for given in found for label, _ in given} if found else None
    try:
        family = Exposition.family(name)
        kind, _, named = CATALOGUE[family]
    except (StopIteration, KeyError):
        return None
    if (kind == "histogram") is (name == family):
        return None
    return {"node", *named, *(["le"] if name.endswith("_bucket") else [])}


def _walk(node: Any, visit: Any) -> None:
    promql_parser.walk(node, pre_visit=visit)
