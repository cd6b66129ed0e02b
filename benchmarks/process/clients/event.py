"""The values of the topic, for msgspec."""

import msgspec


class Event(msgspec.Struct):
    """One value."""

    id: int
    user: str
    event: str
    amount: float
    time: int
    ok: bool
