"""Grete's own settings with their defaults, and hints for settings in the wrong place."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from grete import _native, _units
from grete._config import parsers
from grete._config.latency import parse_latency
from grete._config.parsers import Setting
from grete._config.suggest import did_you_mean, kafka_setting
from grete._config.swarm_settings import SWARM_SETTINGS
from grete.errors import ConfigError, NotSupportedError
from grete.retry import Retry

# The native module owns the defaults of what it limits.
_ROUTE_DEFAULTS = _native.route_defaults()

# Settings of an App. Some are also settings of a route: they are the defaults of its routes.
SETTINGS: dict[str, Setting] = {
    "workers": Setting(parsers.worker_count, 5, "threads that run handlers"),
    "group": Setting(
        parsers.text, None, "consumer group of routes that name none; else kafka's group.id, else the App's name"
    ),
    "max_messages": Setting(
        parsers.uint32_count, _ROUTE_DEFAULTS["max_messages"], "messages that one call of consume gets at most"
    ),
    "max_bytes": Setting(
        parsers.byte_count,
        f"{_ROUTE_DEFAULTS['max_bytes'] >> 20}MiB",
        "bytes of messages that one call of consume gets at most (one message always)",
        unit="bytes",
    ),
    "max_wait": Setting(
        _units.seconds, "0s", "how long to wait for max_messages before a call with fewer", unit="seconds"
    ),
    "latency": Setting(
        parse_latency,
        "0s",
        "how long records may wait at the broker to be fetched together; the smallest of a group's routes counts",
        unit="seconds",
    ),
    "stall_after": Setting(
        parsers.timeout,
        "30s",
        "how long a call may take before the log names it with its stack, and how long a partition may stand still "
        'while records wait; or "none"',
        unit="seconds",
    ),
    "handler_timeout": Setting(
        parsers.timeout, "none", 'how long a call may take before it counts as hung; or "none"', unit="seconds"
    ),
    "shutdown_timeout": Setting(_units.seconds, "30s", "how long a stop may take before it is forced", unit="seconds"),
    "queued_bytes": Setting(
        _units.size, "64MiB", "memory for records that wait for a handler, per consumer group", unit="bytes"
    ),
    "statistics_interval": Setting(
        parsers.interval,
        "10s",
        'how often `statistics.emitted` is emitted while it has listeners; or "none"',
        unit="seconds",
    ),
    "log_level": Setting(
        parsers.log_level,
        "info",
        "lowest level of the log lines of `grete run`, and of a program that has set up no logging: debug, info, "
        "warning, error, critical",
    ),
    "leak_report": Setting(
        parsers.boolean, True, "whether the log names threads that outlive the consumer that started them"
    ),
    "dead_letter_create": Setting(
        parsers.boolean,
        False,
        "whether dead letter topics that do not exist are created, with the partitions of their source",
    ),
    "loop": Setting(
        parsers.event_loop,
        "auto",
        'the event loop of async handlers: "host" (that of the code that starts the App), "own" (uvloop if installed), '
        '"asyncio", "uvloop"; or "auto": "host" in `grete.asgi.lifespan` and `async with app.running()`, else "own"',
    ),
    "probes": Setting(
        parsers.parse_address, "none", '[HOST:]PORT of /livez, /readyz and /metrics (*:PORT: all interfaces); or "none"'
    ),
    "web_reports": Setting(
        parsers.interval,
        "none",
        'how often the process reports to the topics of `grete web`, like "3s"; or "none"',
        unit="seconds",
    ),
    "web_commands": Setting(
        parsers.boolean,
        False,
        "whether the process obeys commands of `grete web` that are not signed",
    ),
    "web_commands_secret": Setting(
        parsers.shared_secret,
        None,
        "secret of 16 characters or more: the process obeys commands of `grete web` that are signed with it, and no "
        "others",
    ),
    "on_failed_partition": Setting(
        parsers.one_of("wait", "stop"),
        "wait",
        'what a partition that cannot be read does: "wait" (the others go on) or "stop" (the App ends with an error)',
    ),
    "failed_partition_probes": Setting(
        parsers.one_of("readyz", "livez", "none"),
        "readyz",
        'which probes fail while a partition cannot be read: "readyz", "livez" (both) or "none"',
    ),
    "exactly_once": Setting(
        parsers.boolean,
        False,
        "whether what a job produces, and its offsets, become visible together, in a transaction: see "
        "docs/transactions.md",
    ),
    "transaction_interval": Setting(
        parsers.positive_seconds,
        "100ms",
        "with exactly_once: time from the first result that is not committed to its transaction",
        unit="seconds",
    ),
    "nodes": Setting(parsers.node_topics, None, "which nodes of a swarm process which topics; other topics: any node"),
}

# Settings of a route. Where the default is None, the App's setting counts if there is one.
ROUTE_SETTINGS: dict[str, Setting] = {
    **{
        name: replace(SETTINGS[name], default=None)
        for name in ("group", "max_messages", "max_bytes", "max_wait", "latency", "stall_after", "handler_timeout")
    },
    "concurrency": Setting(
        parsers.concurrency,
        "partition",
        "what keeps its order: a partition, a key, or nothing",
    ),
    "exactly_once": replace(SETTINGS["exactly_once"], parse=parsers.flag, default=None),
    "max_in_flight": Setting(
        parsers.uint32_count,
        _ROUTE_DEFAULTS["max_in_flight"],
        'with "key" and "unordered": records of a partition in work at most',
    ),
    "max_concurrency": Setting(
        parsers.uint32_count, None, "calls of the handler at once in this process, at most; by default no limit"
    ),
    "priority": Setting(parsers.priority, 0, "a route is served as if it had waited this many seconds longer"),
    "payload": Setting(parsers.unchanged, None, "what values are decoded to, and how"),
    "publish": Setting(parsers.publish, None, "the topic that takes what the handler returns"),
    "retry": Setting(parsers.retry, Retry(), "what happens after a failure"),
    "dead_letter": Setting(parsers.topic_name, None, "the topic that takes records whose attempts are used up"),
    "queue": Setting(
        parsers.flag,
        False,
        "whether a share group (KIP-932) hands out the records one by one, to more workers than there are partitions: "
        "see docs/queues.md",
    ),
    "offsets": Setting(
        parsers.one_of("auto", "manual", "at_most_once"), "auto", "who marks records as processed, and when"
    ),
    "max_unmarked": Setting(
        parsers.uint32_count,
        _ROUTE_DEFAULTS["max_unmarked"],
        'records without a mark (offsets="manual"), or since the first one not done ("key"), that pause a partition',
    ),
    "offset_map": Setting(parsers.flag, False, "whether marks ahead of the committed offset are kept in its metadata"),
    "rate_limit": Setting(parsers.parse_rate, None, "records per time, of the route in this process"),
    "delay": Setting(_units.seconds, None, "records are processed when they are at least this old", unit="seconds"),
    "max_age": Setting(parsers.positive_seconds, None, "older records are skipped, and counted", unit="seconds"),
    "dedup": Setting(
        parsers.dedup,
        None,
        "what identifies a record, as header:NAME, key or field:NAME: a record whose id came before is skipped",
    ),
    "dedup_window": Setting(
        parsers.positive_seconds, "10m", "with dedup: age of an id beyond which it counts no more", unit="seconds"
    ),
    "dedup_memory": Setting(
        parsers.byte_count, "16MiB", "with dedup: memory for the ids of a partition; an id takes 112 bytes"
    ),
    "tick": Setting(
        parsers.positive_seconds,
        None,
        "how often the consumer's tick method runs, with or without records",
        unit="seconds",
    ),
    "nodes": Setting(parsers.nodes, None, "nodes of a swarm that run it; all by default"),
    "partitions": Setting(
        parsers.partitions, None, "partitions to read without a group assignment: list, or dict by node"
    ),
}

# Planned settings, refused by name until they are implemented.
NOT_SUPPORTED: tuple[str, ...] = ()

# Settings that users look for under other names, with the right place.
_HINTS = {
    "transactional": "it is called exactly_once",
    "attempts": "it belongs to the retry policy: retry=grete.Retry(attempts=...)",
    "backoff": 'it belongs to the retry policy: retry=grete.Retry(backoff="200ms..30s")',
    "jitter": "it belongs to the retry policy: retry=grete.Retry(jitter=...)",
    "retries": "say how often a handler runs in all: retry=grete.Retry(attempts=...)",
    "eof": "define a method eof on the consumer class: it runs when a partition has been read to its end",
    "topic": 'topics come first, without a name: @app.consumer("orders")',
    "topics": 'topics come first, without a name: @app.consumer("orders", "returns")',
    "group_id": "it is called group",
    **dict.fromkeys(("dlq", "dlq_topic", "dead_letter_topic"), "it is called dead_letter"),
    **dict.fromkeys(("threads", "max_workers"), "it is called workers: grete.App(..., workers=...)"),
    "processes": 'it is a setting of the swarm: grete.App(..., swarm={"nodes": ...})',
    **dict.fromkeys(("batch_size", "max_records"), "it is called max_messages"),
    **dict.fromkeys(("decoder", "deserializer", "value_deserializer", "model", "schema"), "it is called payload"),
    **dict.fromkeys(("order", "ordering"), 'it is called concurrency: "partition", "key" or "unordered"'),
    "expire": "it is called max_age",
    **dict.fromkeys(("deduplicate", "dedupe", "idempotent", "unique"), "it is called dedup"),
}


def check_names(given: Mapping[str, object], known: Iterable[str], where: str) -> None:
    """Refuses names that do not exist, with the nearest name or the right place."""
    known = list(known)
    for name, value in given.items():
        if name in known:
            continue
        if name in NOT_SUPPORTED:
            if value is not None:
                raise NotSupportedError(
                    f"{where}: {name}={value!r} is not built yet; for now leave it out", setting=name
                )
            continue
        if name == "concurrency" and isinstance(value, int):
            hint = f": the number of handlers that run at once is workers={value}"
        else:
            hint = _hint(name, known)
        raise ConfigError(f'{where} has no setting "{name}"{hint}', setting=name)


def _hint(name: str, known: list[str]) -> str:
    if name in _HINTS:
        return f": {_HINTS[name]}"
    if name in ROUTE_SETTINGS:
        return f": it is a setting of a route: @app.consumer(..., {name}=...)"
    if name in SETTINGS:
        return f": it is a setting of the App: grete.App(..., {name}=...)"
    if name in SWARM_SETTINGS:
        return f": it is a setting of the swarm: grete.App(..., swarm={{{name!r}: ...}})".replace("'", '"')
    kafkas = kafka_setting(name)
    if kafkas is not None:
        variable = f"GRETE_KAFKA_{kafkas.upper().replace('.', '_')}"
        return f': {kafkas} is Kafka\'s: kafka={{"{kafkas}": ...}} in code, [kafka] in grete.toml, or {variable}'
    hint = did_you_mean(name, [*known, *NOT_SUPPORTED, "kafka"])
    if not hint and "." in name:
        return "; Kafka's settings go into kafka={...}"
    return hint
