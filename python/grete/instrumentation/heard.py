"""Whether somebody listens, kept where it costs nothing to look."""

from grete._core import Event


class Heard:
    """Whether somebody listens to one of several events: `if heard.now:` looks at an attribute, and calls nothing.

    For what runs so often that even to ask an `Event` is much. It is what watches these events from then on.
    """

    __slots__ = ("_events", "now")

    def __init__(self, *events: Event) -> None:
        self._events = events
        self.now = False
        for event in events:
            event.watch(self._look)
        self._look()

    def _look(self) -> None:
        """After each change. Without a lock, which a fork could find held.

        Two threads, one listener goes and another comes: the first looks (nobody), the second looks (somebody, as it is
        noted) and leaves, the first notes that there is nobody. So who notes looks again: the last look comes after the
        last note, and every change after that look has one of its own.
        """
        while (now := any(self._events)) is not self.now:
            self.now = now
