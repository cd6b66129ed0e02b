"""Kafka brokers in this process, for development and tests: no Java, no container, a start within milliseconds.

    with grete.broker.Broker(topics={"orders": 8}) as broker:
        consumer = grete.client.Consumer({"bootstrap.servers": broker.bootstrap_servers})

The brokers speak Kafka's protocol on loopback ports, to any client. `grete dev --features` lists what they implement.
They have no replication, and are not made for production. Methods of `Broker` look into the
brokers and make them fail, for tests.
"""

from grete.broker._embedded import Broker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grete.broker._results import LoggedRequest, StoredRecord

__all__ = ["Broker", "LoggedRequest", "StoredRecord"]

if not TYPE_CHECKING:  # a type checker that saw it would accept any name

    def __getattr__(name: str) -> object:
        """Imports the classes of results when they are first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from grete.broker import _results

        return getattr(_results, name)
