"""Which broker the tests run on: `pytest --kafka=embedded | apache[:VERSION] | HOST:PORT`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from .apache import ApacheCluster
from .cluster import KafkaCluster
from .embedded import EmbeddedCluster
from .jars import chosen_version


@dataclass(frozen=True)
class Choice:
    """The chosen broker: `kind` is "embedded", "apache" or "running", `detail` a version or an address."""

    kind: str
    detail: str = ""

    @property
    def text(self) -> str:
        """The text that makes the same choice."""
        return f"apache:{self.detail}" if self.is_apache else self.detail or self.kind

    @staticmethod
    def parse(text: str) -> Choice:
        """ValueError for a text that chooses nothing."""
        name, colon, detail = text.partition(":")
        if text == "embedded":
            return Choice(text)
        if name == "apache" and bool(colon) == bool(detail):
            return Choice(name, detail or chosen_version())
        if name and detail.isdigit():
            return Choice("running", text)
        raise ValueError(f"--kafka={text}: choose embedded, apache, apache:4.3.0 or HOST:PORT")

    @property
    def is_apache(self) -> bool:
        """Whether Apache Kafka is started, with Java and Maven."""
        return self.kind == "apache"

    def __str__(self) -> str:
        return f"{self.kind} {self.detail}".rstrip()


_chosen = Choice("embedded")


def choose(text: str) -> Choice:
    """Choose the broker of all clusters from now on."""
    global _chosen
    _chosen = Choice.parse(text)
    return _chosen


def chosen() -> Choice:
    """The broker of clusters."""
    return _chosen


def new_cluster(nodes: int = 1, properties: Mapping[str, object] | None = None) -> KafkaCluster:
    """A cluster of the chosen broker, to be entered by `with`.

    nodes: 1, or 3 (replication factor 3, min.insync.replicas 2). properties: broker settings over those of the harness.
    """
    if _chosen.kind == "embedded":
        return EmbeddedCluster(nodes, properties)
    if _chosen.kind == "apache":
        return ApacheCluster(_chosen.detail, nodes, properties)
    pytest.skip("the broker of --kafka=HOST:PORT is shared: tests that start their own do not run on it")
