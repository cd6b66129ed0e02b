"""Invoices that the App has written: the evidence that an order was handled."""

import json
from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grete.broker import Broker

TOPIC = "invoices"


class Invoices:
    """Counts of invoices by order, read from the broker of this process."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._next_offsets = [0] * len(broker.offsets(TOPIC))
        self._by_order: Counter[int] = Counter()

    def read(self) -> None:
        """Counts the invoices that were written since the last call."""
        for partition, begin in enumerate(self._next_offsets):
            for record in self._broker.records(TOPIC, partition, from_offset=begin):
                self._next_offsets[partition] = record.offset + 1
                self._by_order[json.loads(record.value or b"")["order"]] += 1

    @property
    def orders(self) -> int:
        """Orders with at least one invoice."""
        return len(self._by_order)

    @property
    def repeated(self) -> int:
        """Orders with more than one invoice."""
        return sum(count > 1 for count in self._by_order.values())

    def has(self, order: int) -> bool:
        """Returns whether the order has an invoice."""
        return order in self._by_order
