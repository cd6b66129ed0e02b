"""Events and metrics of Grete for users."""

from grete._native import Event, EventChannel
from grete.instrumentation import clock
from grete.instrumentation.monitor import Listener, Monitor

__all__ = ["Event", "EventChannel", "Listener", "Monitor", "clock"]
