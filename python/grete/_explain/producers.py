"""Events of producers."""

from collections.abc import Mapping

from grete._explain.entry import Entry

PRODUCERS: Mapping[str, Entry] = {
    "produce.expired": Entry(
        "Records were not delivered within `delivery.timeout.ms` (2 minutes).",
        "See `broker.*` lines for the reason. The caller gets a `DeliveryError`; its `outcome` says whether a "
        "broker may have the record.",
        "orders[3]: 12 records were not delivered within delivery.timeout.ms; no broker has them",
    ),
    "produce.failed": Entry(
        "A broker refused records, and a retry would not help: Write is missing, or a record is too large for the "
        "topic.",
        "Do what the error code says: grant Write on the topic, or raise `max.message.bytes` of the topic.",
        "orders[3]: 1 record was refused: not authorized (TOPIC_AUTHORIZATION_FAILED); no broker has it",
    ),
    "produce.given_up": Entry(
        "The producer was closed, or failed, before these records were delivered.",
        "Close it with a longer timeout. `producer.failed` has the reason of a failure.",
        "orders[3]: 12 records were given up when the producer was closed; no broker has them",
    ),
    "producer.failed": Entry(
        "The producer cannot go on: a refused login, no right to write, or an invalid answer of a broker.",
        "Do what the message says, and make a new producer. In an App a restart does so.",
        "asking for a producer id: the broker answered CLUSTER_AUTHORIZATION_FAILED (31): not authorized",
    ),
    "producer.undelivered": Entry(
        "`close()` was over before all records were delivered.",
        "Give `close` more time, or look for the reason in `broker.*` lines.",
        "closed with undelivered records: 12 of orders",
    ),
    "producer.close_timeout": Entry(
        "The producer's thread did not end in time, most often because a callback of `on_delivery` does not return.",
        "Let callbacks return quickly, and hand longer work to a queue.",
        "the producer's thread did not end within 5.0 s; it is left running",
    ),
    "producer.callback": Entry(
        "A callback of `on_delivery` raised an exception. The record itself is delivered or not, as its outcome says.",
        "Catch exceptions in the callback; the traceback shows the place.",
        "on_delivery callback <function delivered at 0x7f...> raised",
    ),
    "provider.failed": Entry(
        "The part behind `yield` of a provider raised an exception when the process ended.",
        "Correct the provider; the traceback shows the place. Jobs were not affected.",
        "the end of pool failed: OSError: [Errno 9] Bad file descriptor",
    ),
    "transaction.aborted": Entry(
        "A transaction of exactly-once jobs was aborted: a coordinator moved, the group has given partitions away, or "
        "a broker has refused a record. Nothing of it is visible to readers of committed records.",
        "One line needs no action: records and offsets are sent again. If the lines go on, remove the cause that they "
        "name. A record that no broker takes fails its job, and goes to the dead letter topic.",
        "a transaction was aborted: group payments refused the offsets of this member (ILLEGAL_GENERATION): ...; its "
        "records and offsets are committed again",
    ),
    "transaction.failed": Entry(
        "A record of the transaction was not delivered, or a broker refused a request: the transaction can only be "
        "aborted. Its block raises `TransactionAbortedError`.",
        "Remove the cause that the line names, and run the transaction again.",
        "the transaction can only be aborted: group g refused the offsets of this member (ILLEGAL_GENERATION): the "
        "group has rebalanced meanwhile, and other members have the partitions",
    ),
}
