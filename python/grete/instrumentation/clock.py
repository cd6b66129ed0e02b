"""Two clocks, as plain floats of seconds. A look at one makes nothing but its float: no datetime."""

import time

monotonic = time.monotonic
"""For distances: never set back. Its zero is anywhere."""

realtime = time.time
"""For points in time: since 1970, UTC. Others set it."""

__all__ = ["monotonic", "realtime"]
