"""Cause, cure and an example of each error and of each event that is logged as WARNING or ERROR, for `grete explain`.

docs/errors is generated from these texts (`python -m docsite`).
"""

from collections.abc import Mapping

from grete._explain.brokers import BROKERS
from grete._explain.classes import CLASSES
from grete._explain.entry import Entry
from grete._explain.handlers import HANDLERS
from grete._explain.producers import PRODUCERS
from grete._explain.swarm import SWARM

ENTRIES: Mapping[str, Entry] = {**CLASSES, **HANDLERS, **BROKERS, **PRODUCERS, **SWARM}
"""Entries by the name of the class, without its module, or by the name of the event."""

__all__ = ["BROKERS", "CLASSES", "ENTRIES", "HANDLERS", "PRODUCERS", "SWARM", "Entry"]
