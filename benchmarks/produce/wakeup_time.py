"""The time that a wake-up takes."""

from grete.client import Delivery


def handover_ns(delivery: Delivery, now: float) -> int:
    """From the moment when the answer was read to `now`, the first thing that the woken caller read."""
    assert delivery.acknowledged_at is not None
    return int((now - delivery.acknowledged_at) * 1e9)
