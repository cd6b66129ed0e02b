"""What a `/metrics` says, as an independent parser reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from grete import _native

CATALOGUE: dict[str, tuple[str, str, list[str]]] = {
    name: (kind, help_, labels) for name, kind, help_, labels in _native.metric_descriptors()
}
"""name: kind, help, names of labels."""
_PARTS = ("_bucket", "_sum", "_count")

Series = tuple[str, tuple[tuple[str, str], ...]]


class Exposition:
    """A parsed text. AssertionError for what Prometheus would stumble over: a family or a series that comes twice."""

    def __init__(self, text: str | bytes) -> None:
        self.text = text if isinstance(text, str) else text.decode()
        types = [line.split()[2] for line in self.text.splitlines() if line.startswith("# TYPE ")]
        helps = [line.split()[2] for line in self.text.splitlines() if line.startswith("# HELP ")]
        assert types == helps
        assert len(set(types)) == len(types), "a family comes twice"
        assert not self.text or self.text.endswith("\n")
        self.values: dict[Series, float] = {}
        order = []
        parse: Callable[[str], Any] = text_string_to_metric_families
        for family in parse(self.text):
            for sample in family.samples:
                series = (sample.name, tuple(sample.labels.items()))
                assert series not in self.values, f"{series} comes twice"
                self.values[series] = sample.value
                order.append(self.family(sample.name))
        assert [name for at, name in enumerate(order) if at == 0 or order[at - 1] != name] == types, "grouped"

    @staticmethod
    def family(name: str) -> str:
        """The catalogue's name of a sample's."""
        if name in CATALOGUE:
            return name
        part = next(part for part in _PARTS if name.endswith(part))
        return name.removesuffix(part)

    @property
    def families(self) -> set[str]:
        """The catalogue's names of all metrics in the text."""
        return {self.family(name) for name, _ in self.values}

    def of(self, name: str, **labels: str) -> dict[tuple[tuple[str, str], ...], float]:
        """The samples of this name that have these labels, by all their labels."""
        wanted = labels.items()
        return {
            given: value
            for (found, given), value in self.values.items()
            if found == name and wanted <= dict(given).items()
        }

    def one(self, name: str, **labels: str) -> float:
        """The value of the only such sample."""
        found = self.of(name, **labels)
        assert len(found) == 1, (name, labels, found)
        return next(iter(found.values()))

    def check(self, extra: Sequence[str] = ()) -> None:
        """Each family is the catalogue's, with its kind, help and labels, `extra` before them."""
        for name, given in self.values:
            kind, help_, labels = CATALOGUE[self.family(name)]
            own = [] if self.family(name).startswith("grete_swarm_") else list(extra)
            le = ["le"] if name.endswith("_bucket") else []
            assert [label for label, _ in given] == [*own, *labels, *le], (name, given)
            assert f"# HELP {self.family(name)} {help_}\n# TYPE {self.family(name)} {kind}\n" in self.text


def line(name: str, labels: Mapping[str, str], value: float) -> str:
    """A sample as a node writes it."""
    inside = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value}\n" if inside else f"{name} {value}\n"
