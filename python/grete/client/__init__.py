"""The low-level client: usable without an App, a context manager."""

from grete.client.consumer import Consumer
from grete.client.producer import Deliveries, Delivery, Producer, Undelivered

__all__ = ["Consumer", "Deliveries", "Delivery", "Producer", "Undelivered"]
