"""The cluster and its brokers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as the others have it."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster as one broker has it: the brokers that are up.

    `controller`: the broker that takes a controller's requests. In KRaft clusters that is any of them, since all pass
    them on.
    """

    id: str
    controller: int | None
    brokers: tuple[Broker, ...]
