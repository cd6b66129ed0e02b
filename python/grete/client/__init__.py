"""The low-level client: usable without an App, a context manager."""

from grete.client.consumer import Consumer

__all__ = ["Consumer"]
