"""The time that a wake-up takes."""

from grete.client import Delivery


def handover_ns(delivery: Delivery, now: float) -> int:
    """From the moment when the answer was read to `now`, the first thing that the woken caller looked at."""
    assert delivery.answered_at is not None
    return int((now - delivery.answered_at) * 1e9)
