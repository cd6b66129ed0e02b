"""Pages of the cluster and its transactions."""

from collections import Counter

from grete._web.kafka.gateway import TIMEOUT
from grete._web.server.context import Context, Data
from grete.errors import GreteError, PartialResultError

_MAX_NAMED = 50


def cluster(context: Context) -> Data:
    """Returns the brokers, and the partitions that lack a replica or a leader."""
    found, topics = context.gateway.cluster(), context.gateway.topics()
    leads: Counter[int | None] = Counter(one.leader for topic in topics for one in topic.partitions)
    has: Counter[int] = Counter(broker for topic in topics for one in topic.partitions for broker in one.replicas)
    lacking = [
        {
            "topic": topic.name,
            "partition": one.id,
            "leader": one.leader,
            "missing": sorted(set(one.replicas) - set(one.isr)),
        }
        for topic in topics
        for one in topic.partitions
        if one.leader is None or len(one.isr) < len(one.replicas)
    ]
    return {
        "id": found.id,
        "controller": found.controller,
        "brokers": [
            {
                "id": broker.id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "leads": leads[broker.id],
                "replicas": has[broker.id],
            }
            for broker in found.brokers
        ],
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "lacking": lacking[:_MAX_NAMED],
        "more_lacking": max(0, len(lacking) - _MAX_NAMED),
    }


def transactions(context: Context) -> Data:
    """Returns all transactional ids, those with an open transaction first."""
    problem = ""
    try:
        listed = context.gateway.admin.transactions(timeout=TIMEOUT)
    except PartialResultError as error:
        listed, problem = list(error.partial), str(error)  # type: ignore[call-overload]
    open_ids = [one.transactional_id for one in listed if one.is_open][:_MAX_NAMED]
    described = {}
    if open_ids:
        try:
            described = context.gateway.admin.describe_transactions(open_ids, timeout=TIMEOUT)
        except GreteError as error:
            problem = str(error)
    rows = []
    for one in sorted(listed, key=lambda one: (not one.is_open, one.transactional_id)):
        found = described.get(one.transactional_id)
        started = int(found.started.timestamp() * 1000) if found is not None and found.started is not None else None
        rows.append(
            {
                "id": one.transactional_id,
                "state": one.state,
                "is_open": one.is_open,
                "producer_id": one.producer_id,
                "coordinator": one.coordinator,
                "started": started,
                "age": context.now - started if started is not None else None,
                "timeout": int(found.timeout * 1000) if found is not None else None,
                "partitions": [f"{topic}[{partition}]" for topic, partition in found.partitions]
                if found is not None
                else [],
            }
        )
    return {"transactions": rows, "problem": problem}
