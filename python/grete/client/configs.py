"""Settings of topics and brokers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. `source`: "topic", "dynamic-broker", "dynamic-default", "static-broker", "default" or "other".

    `value` is None for sensitive settings, which brokers keep to themselves.
    """

    name: str
    value: str | None
    source: str
    read_only: bool
    sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source == "default"
