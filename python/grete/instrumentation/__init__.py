"""What happens in Grete, for those who want to know."""

from grete._core import Event, Occurred
from grete.instrumentation import clock
from grete.instrumentation.monitor import Listener, Monitor

__all__ = ["Event", "Listener", "Monitor", "Occurred", "clock"]
