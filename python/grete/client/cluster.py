"""Cluster, its brokers, and settings of brokers and topics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Broker:
    """Broker by the cluster's metadata."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cluster by the metadata of one broker: the brokers that are up.

    `controller`: the broker for controller requests. In KRaft clusters that is any broker, because all forward them.
    """

    id: str
    controller: int | None
    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. `source`: "topic", "dynamic-broker", "dynamic-default", "static-broker", "default", "group" or
    "other".

    `value` is None for sensitive settings, which brokers do not return.
    """

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether the setting has its default value."""
        return self.source == "default"
