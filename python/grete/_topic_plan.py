"""Plan of what brokers lack of the topics that an App declares, and its execution."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from grete._plural import counted
from grete.client import Admin, NewTopic, TopicDescription
from grete.client.topics import config_texts
from grete.errors import GreteError, TopicExistsError

Kind: TypeAlias = Literal["create", "add_partitions", "alter_config", "recreate", "delete", "refused"]

_UNLIMITED = -1


class DeclaredTopic(Protocol):
    """Topic of `App.topics`, as far as it is created. None: the broker's default, or what the topic has."""

    name: str
    partitions: int | None
    replication: int | None
    config: Mapping[str, Any] | None
    location: str


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between the declaration and the brokers. `text` says it without the name of the topic."""

    topic: str
    kind: Kind
    text: str
    partitions: int | None = None
    replication: int | None = None
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Allowed:
    """Topics for which changes that lose records were asked for, by name."""

    loss: Collection[str] = ()
    recreate: Collection[str] = ()
    delete: Collection[str] = ()


def make_plan(
    admin: Admin, declared: Mapping[str, DeclaredTopic], allowed: Allowed, timeout: float | None = 60.0
) -> list[Change]:
    """Returns all changes, topic by topic. Raises GreteError for a name in `allowed` that cannot be meant.

    Brokers check the changes, without carrying them out: an unknown setting, for example, raises KafkaError.
    """
    existing = {topic.name: topic for topic in admin.all_topics(timeout=timeout)}
    _check_names(declared, existing, allowed)
    changes = [change for topic in declared.values() for change in _compare(admin, topic, existing, allowed, timeout)]
    changes += [Change(name, "delete", "delete, with all records") for name in allowed.delete if name in existing]
    for change in changes:
        _carry_out(admin, change, timeout, validate_only=True)
    return changes


def apply_plan(admin: Admin, changes: Iterable[Change], timeout: float | None = 60.0) -> Iterator[Change]:
    """Carries out the changes that are not refused, one after the other, and yields each one that is done."""
    for change in changes:
        if change.kind != "refused":
            _carry_out(admin, change, timeout, validate_only=False)
            yield change


def _check_names(declared: Mapping[str, object], existing: Mapping[str, object], allowed: Allowed) -> None:
    for name in allowed.delete:
        if name in declared:
            raise GreteError(f'--delete {name}: the App declares "{name}"; remove the declaration first')
    for option, names in (("--recreate", allowed.recreate), ("--allow-loss", allowed.loss)):
        for name in names:
            if name not in declared:
                known = ", ".join(sorted(declared))
                raise GreteError(f'{option} {name}: the App does not declare "{name}", only {known}')
    for name in allowed.recreate:
        if name not in existing:
            raise GreteError(f'--recreate {name}: there is no topic "{name}"; without the option it is created')


def _compare(
    admin: Admin,
    topic: DeclaredTopic,
    existing: Mapping[str, TopicDescription],
    allowed: Allowed,
    timeout: float | None,
) -> Iterator[Change]:
    config = dict(config_texts(topic.config or {}))
    found = existing.get(topic.name)
    if found is None:
        yield _creation("create", topic, config)
        return
    if topic.name in allowed.recreate:
        yield _creation("recreate", topic, config)
        return
    yield from _compare_partitions(topic, found)
    yield from _compare_replication(topic, found)
    yield from _compare_config(admin, topic, config, topic.name in allowed.loss, timeout)


def _creation(kind: Kind, topic: DeclaredTopic, config: Mapping[str, str]) -> Change:
    facts = [
        "default partitions" if topic.partitions is None else counted(topic.partitions, "partition"),
        "default replication" if topic.replication is None else f"replication {topic.replication}",
        *(f"{name}={value}" for name, value in config.items()),
    ]
    text = "create" if kind == "create" else "delete with all records, and create again"
    return Change(
        topic.name, kind, f"{text}: {', '.join(facts)}", topic.partitions or -1, topic.replication or -1, config
    )


def _compare_partitions(topic: DeclaredTopic, found: TopicDescription) -> Iterator[Change]:
    count, wanted = len(found.partitions), topic.partitions
    if wanted is None or wanted == count:
        return
    if wanted > count:
        text = f"partitions {count} -> {wanted}; new records of a key may go to another partition than its old ones"
        yield Change(topic.name, "add_partitions", text, wanted)
        return
    text = (
        f"partitions {count} -> {wanted}: Kafka cannot remove partitions. Declare {count}, or delete all records and "
        f"create the topic again with --recreate {topic.name}"
    )
    yield Change(topic.name, "refused", text)


def _compare_replication(topic: DeclaredTopic, found: TopicDescription) -> Iterator[Change]:
    present, wanted = max((len(part.replicas) for part in found.partitions), default=0), topic.replication
    if wanted is None or wanted == present:
        return
    text = (
        f"replication {present} -> {wanted}: a reassignment of partitions does that, for example by Kafka's "
        f"kafka-reassign-partitions. Declare {present}, or delete all records and create the topic again with "
        f"--recreate {topic.name}"
    )
    yield Change(topic.name, "refused", text)


def _compare_config(
    admin: Admin, topic: DeclaredTopic, config: Mapping[str, str], loss: bool, timeout: float | None
) -> Iterator[Change]:
    if not config:
        return
    present = admin.config(topic.name, timeout=timeout)
    for name, value in config.items():
        before = present[name].value if name in present else None
        if before == value:
            continue
        text = f"{name} {before if before is not None else '(not set)'} -> {value}"
        if _loses_records(name, before, value) and not loss:
            why = f"{text}: brokers may delete records that are kept now. Ask for it with --allow-loss {topic.name}"
            yield Change(topic.name, "refused", why)
        else:
            yield Change(topic.name, "alter_config", text, config={name: value})


def _loses_records(name: str, before: str | None, value: str) -> bool:
    """Returns whether brokers may delete or compact records that they keep now."""
    if name == "cleanup.policy":
        return before is None or not set(_words(value)) <= set(_words(before))
    if name in ("retention.ms", "retention.bytes"):
        try:
            new, old = int(value), _UNLIMITED if before is None else int(before)
        except ValueError:
            return False  # brokers refuse it
        return new != _UNLIMITED and (old == _UNLIMITED or new < old)
    return False


def _words(policy: str) -> list[str]:
    return [word.strip() for word in policy.split(",") if word.strip()]


def _carry_out(admin: Admin, change: Change, timeout: float | None, *, validate_only: bool) -> None:
    name = change.topic
    if change.kind in ("delete", "recreate"):
        if validate_only:
            return  # Kafka cannot check a deletion, nor the creation of a topic that exists
        admin.delete_topic(name, timeout=timeout)
    if change.kind in ("create", "recreate"):
        new = NewTopic(name, change.partitions or -1, change.replication or -1, change.config)
        try:
            admin.create_topics([new], validate_only=validate_only, timeout=timeout)
        except TopicExistsError:
            if change.kind == "create":
                raise GreteError(
                    f'topic "{name}" was created by another client meanwhile: grete topics plan says what it lacks'
                ) from None
            raise
    elif change.kind == "add_partitions":
        admin.create_partitions(name, change.partitions or 1, validate_only=validate_only, timeout=timeout)
    elif change.kind == "alter_config":
        admin.alter_config(name, change.config, validate_only=validate_only, timeout=timeout)
