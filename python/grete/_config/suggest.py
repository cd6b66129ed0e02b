"""Suggestions for misspelled names, and for Kafka's settings under other names."""

from grete import _native
from grete._suggest import did_you_mean

__all__ = ["client_keyword", "did_you_mean", "kafka_setting"]

_BOOTSTRAP_ALIASES = ("bootstrap", "bootstrap_server", "brokers", "broker", "servers", "metadata_broker_list")


def kafka_setting(name: str) -> str | None:
    """Returns the Kafka setting for a name with underscores or dots; None if there is none."""
    plain = name.lower().replace(".", "_").removeprefix("kafka_")
    dotted = plain.replace("_", ".")
    if plain in _BOOTSTRAP_ALIASES:
        return "bootstrap.servers"
    given = [("bootstrap.servers", "any:1")]
    entries = [*_native.config_entries(given, "consumer"), *_native.config_entries(given, "producer")]
    return dotted if any(dotted == entry[0] for entry in entries) else None


def client_keyword(name: str) -> str:
    """Returns the right place of a keyword argument of a low-level client; "" if it is no setting of Kafka's."""
    kafkas = kafka_setting(name)
    return f'Kafka\'s settings are one dict, by their dotted names: {{"{kafkas}": ...}}' if kafkas else ""
