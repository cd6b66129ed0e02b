"""Low-level clients, usable without an App. All are context managers."""

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
