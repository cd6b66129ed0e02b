"""Two clocks, as plain floats of seconds. Reading a clock allocates only its float, no datetime."""

import time

monotonic = time.monotonic
"""For durations: never set back. Its zero is arbitrary."""

realtime = time.time
"""For points in time: seconds since 1970, UTC. The system may set it."""

__all__ = ["monotonic", "realtime"]
