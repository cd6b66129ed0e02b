"""Low-level clients, usable without an App. All are context managers.

Each name is imported when it is first used: most programs administer nothing.
"""

from grete import TYPE_CHECKING

if TYPE_CHECKING:
    from grete.client.acls import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
    from grete.client.admin import Admin
    from grete.client.cluster import Broker, Cluster, ConfigEntry
    from grete.client.consumer import Consumer
    from grete.client.groups import (
        GroupDescription,
        GroupListing,
        GroupMetadata,
        Lag,
        MemberDescription,
        Membership,
        Reset,
    )
    from grete.client.producer import Deliveries, Delivery, Producer, Undelivered
    from grete.client.share_consumer import ShareConsumer
    from grete.client.topic_reader import TopicReader, read_topic
    from grete.client.topics import NewTopic, PartitionDescription, TopicDescription
    from grete.client.transaction_admin import (
        ActiveProducer,
        HangingTransaction,
        TransactionDescription,
        TransactionListing,
    )
    from grete.client.transactions import Transaction

__all__ = [
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "ActiveProducer",
    "Admin",
    "Broker",
    "Cluster",
    "ConfigEntry",
    "Consumer",
    "Deliveries",
    "Delivery",
    "GroupDescription",
    "GroupListing",
    "GroupMetadata",
    "HangingTransaction",
    "Lag",
    "MemberDescription",
    "Membership",
    "NewTopic",
    "PartitionDescription",
    "PatternType",
    "Producer",
    "Reset",
    "ResourceType",
    "ShareConsumer",
    "TopicDescription",
    "TopicReader",
    "Transaction",
    "TransactionDescription",
    "TransactionListing",
    "Undelivered",
    "read_topic",
]

if not TYPE_CHECKING:  # a type checker that saw it would accept any name
    _PLACES = {
        **dict.fromkeys(
            ("AclBinding", "AclFilter", "AclOperation", "AclPermission", "PatternType", "ResourceType"), "acls"
        ),
        "Admin": "admin",
        **dict.fromkeys(("Broker", "Cluster", "ConfigEntry"), "cluster"),
        "Consumer": "consumer",
        **dict.fromkeys(
            ("GroupDescription", "GroupListing", "GroupMetadata", "Lag", "MemberDescription", "Membership", "Reset"),
            "groups",
        ),
        **dict.fromkeys(("Deliveries", "Delivery", "Producer", "Undelivered"), "producer"),
        "ShareConsumer": "share_consumer",
        **dict.fromkeys(("TopicReader", "read_topic"), "topic_reader"),
        **dict.fromkeys(("NewTopic", "PartitionDescription", "TopicDescription"), "topics"),
        **dict.fromkeys(
            ("ActiveProducer", "HangingTransaction", "TransactionDescription", "TransactionListing"),
            "transaction_admin",
        ),
        "Transaction": "transactions",
    }

    def __getattr__(name: str) -> object:
        """Imports a public name when it is first used."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"grete.client.{_PLACES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """Returns the public names, imported or not."""
        return sorted({*globals(), *__all__})
