"""Faults of one seed."""

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grete.testing._kafka.faults import Faults

# Errors that clients retry, by API.
_ERRORS = {
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"),
    "Fetch": ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_LEADER_EPOCH", "FETCH_SESSION_ID_NOT_FOUND"),
    "ListOffsets": ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE"),
    "OffsetCommit": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"),
    "OffsetFetch": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    "JoinGroup": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"),
    "SyncGroup": ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"),
    "Heartbeat": ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID"),
    "ConsumerGroupHeartbeat": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_MEMBER_ID"),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "InitProducerId": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
}


class FaultSchedule:
    """Faults that a seed chooses: the same ones for the same seed, by the number of the request that they hit."""

    def __init__(self, seed: int, faults: int) -> None:
        chance = random.Random(seed)  # noqa: S311
        self._faults = [_choose(chance) for _ in range(chance.randint(0 if seed == 0 else 1, max(faults, 1)))]

    def apply(self, kafka: "Faults") -> None:
        """Adds the faults to the brokers."""
        for method, arguments, where in self._faults:
            getattr(kafka, method)(*arguments, **where)

    def __str__(self) -> str:
        return "\n".join(_describe(*fault) for fault in self._faults)


def _describe(method: str, arguments: tuple[object, ...], where: dict[str, object]) -> str:
    """Returns the fault as the line of a test."""
    return (
        f"kafka.{method}({', '.join([*map(repr, arguments), *(f'{name}={value!r}' for name, value in where.items())])})"
    )


def _choose(chance: random.Random) -> tuple[str, tuple[object, ...], dict[str, object]]:
    api = chance.choice(list(_ERRORS))
    where: dict[str, object] = {"skip": chance.randint(0, 4), "times": chance.randint(1, 2)}
    match chance.choice(("fail", "fail", "disconnect", "lose", "delay")):
        case "fail":
            return "fail", (api, chance.choice(_ERRORS[api])), where
        case "disconnect":
            return "disconnect", (api,), where
        case "lose":
            return "disconnect", (api,), {"handled": True, **where}
        case _:
            return "delay", (api, chance.choice((0.005, 0.02, 0.1))), where
