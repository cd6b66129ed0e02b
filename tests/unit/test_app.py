"""What an App accepts and what it refuses, without running it."""

from typing import Any

import pytest

import grete

pytestmark = pytest.mark.usefixtures("empty_directory")

KAFKA = {"bootstrap.servers": "localhost:9092"}


def make() -> grete.App:
    return grete.App("billing", kafka=KAFKA)


class Orders(grete.Consumer):
    def consume(self) -> None:
        """Nothing."""


def test_a_class_and_functions_are_consumers() -> None:
    app = make()
    assert app.consumer("orders", max_messages=7)(Orders) is Orders

    @app.consumer("clicks", "views")
    def clicks(messages: grete.Messages) -> None:
        """Nothing."""

    @app.consumer("bare")
    def bare(messages):  # type: ignore[no-untyped-def]
        """Nothing."""

    assert [(route.topics, route.max_messages, route.name) for route in app.routes] == [
        (("orders",), 7, "Orders.consume"),
        (("clicks", "views"), None, "clicks"),
        (("bare",), None, "bare"),
    ]
    assert isinstance(app.routes[0].new_consumer(), Orders)
    assert app.routes[0].new_consumer() is not app.routes[0].new_consumer()


def test_annotations_as_strings_are_understood() -> None:
    def quoted(messages: "grete.Messages") -> None:
        """Nothing."""

    make().consumer("orders")(quoted)

    def unknown(messages: "Missing") -> None:  # type: ignore[name-defined]  # noqa: F821
        """Nothing."""

    with pytest.raises(grete.ConfigError, match="annotation of messages cannot be resolved"):
        make().consumer("orders")(unknown)


def test_groups_of_routes() -> None:
    app = make()
    app.consumer("orders")(Orders)
    app.consumer("clicks", group="other")(Orders)
    assert {group: [r.topics for r in routes] for group, routes in app.groups(app.settings()).items()} == {
        "billing": [("orders",)],
        "other": [("clicks",)],
    }
    app.override({"group": "named"})
    assert set(app.groups(app.settings())) == {"named", "other"}
    by_kafka = grete.App("billing", kafka={**KAFKA, "group.id": "from-kafka"})
    by_kafka.consumer("orders")(Orders)
    assert set(by_kafka.groups(by_kafka.settings())) == {"from-kafka"}


def test_one_group_reads_a_topic_once() -> None:
    app = make()
    app.consumer("orders")(Orders)
    app.consumer("orders", group="audit")(Orders)
    app.groups(app.settings())
    with pytest.raises(grete.ConfigError, match='both read "orders" in the App\'s group'):
        app.consumer("clicks", "orders")(Orders)
    assert len(app.routes) == 2
    # Whether a group by name and the App's are one is known when the settings are.
    app.consumer("orders", group="billing")(Orders)
    with pytest.raises(grete.ConfigError, match='both read "orders" in group "billing"'):
        app.groups(app.settings())


class Bare(grete.Consumer):
    pass


class NotDerived:
    def consume(self) -> None:
        """Nothing."""


class NeedsArguments(Orders):
    def __init__(self, url: str) -> None:
        self.url = url


def no_argument() -> None:
    """Nothing."""


def two_arguments(messages: grete.Messages, more: int) -> None:
    """Nothing."""


@pytest.mark.parametrize(
    ("handler", "error", "says"),
    [
        (Bare, grete.ConfigError, "Bare has no consume method"),
        (NotDerived, grete.ConfigError, "derives from grete.Consumer"),
        (NeedsArguments, grete.ConfigError, "without arguments.*'url'"),
        (no_argument, grete.ConfigError, r"its signature is \(\) -> None: give it a parameter"),
        (two_arguments, grete.ConfigError, "more: int would be the payload of one: bind it with functools.partial"),
        (3, grete.ConfigError, "a class or a function"),
    ],
)
def test_what_is_no_consumer_is_refused(handler: Any, error: type[Exception], says: str) -> None:
    app = make()
    with pytest.raises(error, match=says):
        app.consumer("orders")(handler)
    assert not app.routes


@pytest.mark.parametrize(
    ("topics", "error", "says"),
    [
        ((), grete.ConfigError, "needs a topic"),
        ((Orders,), grete.ConfigError, r'write @app.consumer\("orders"\)'),
        (("",), grete.ConfigError, "no topic name"),
        (("a b",), grete.ConfigError, "no topic name"),
        (("bestellungen-für-alle",), grete.ConfigError, "no topic name"),
        (("..",), grete.ConfigError, "no topic name"),
        (("x" * 250,), grete.ConfigError, "no topic name"),
        (("a", "a"), grete.ConfigError, "named twice"),
        ((3,), grete.ConfigError, "a topic is a string"),
        (("^orders(",), grete.ConfigError, "is no topic pattern"),
    ],
)
def test_topics_are_checked_where_they_are_written(topics: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make().consumer(*topics)


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"workers": 3}, grete.ConfigError, "a setting of the App"),
        ({"max_message": 3}, grete.ConfigError, 'did you mean "max_messages"'),
        ({"max_messages": 0}, grete.ConfigError, "whole number from 1 up"),
    ],
)
def test_route_settings_are_checked(settings: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        make().consumer("orders", **settings)(Orders)
    make().consumer("orders", concurrency="partition")(Orders)


def test_app_settings_are_checked_when_they_are_written() -> None:
    with pytest.raises(grete.ConfigError, match='did you mean "workers"'):
        grete.App("a", kafka=KAFKA, worker=3)  # type: ignore[call-arg]
    with pytest.raises(grete.ConfigError, match=r'how many nodes there are is swarm=\{"nodes": 3\}'):
        grete.App("a", kafka=KAFKA, nodes=3)  # type: ignore[arg-type]
    with pytest.raises(grete.ConfigError, match="an App has a name"):
        grete.App("")
    with pytest.raises(grete.ConfigError, match="kafka is a mapping"):
        grete.App("a", kafka="localhost:9092")  # type: ignore[arg-type]


def test_an_app_does_not_let_its_commits_be_switched_off() -> None:
    with pytest.raises(grete.NotSupportedError, match=r"enable\.auto\.commit=false \(from code\)"):
        grete.App("a", kafka={**KAFKA, "enable.auto.commit": False}).settings()
    grete.App("a", kafka={**KAFKA, "enable.auto.commit": True}).settings()


def test_an_app_without_consumers_does_not_run() -> None:
    with pytest.raises(grete.ConfigError, match="has no consumer"):
        make().run()


def test_a_seek_needs_a_running_app_and_a_place() -> None:
    app = grete.App("shop")
    with pytest.raises(grete.GreteError, match="does not run"):
        app.seek("orders", 0, "earliest")
    with pytest.raises(TypeError, match="not None"):
        app.seek("orders", 0, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "value"), [("on_failed_partition", "ends"), ("failed_partition_probes", "healthz")]
)
def test_what_failed_partitions_do_is_one_of_a_few_words(setting: str, value: str) -> None:
    with pytest.raises(grete.ConfigError, match=setting):
        grete.App("shop", **{setting: value})  # type: ignore[arg-type]


def test_brokers_see_the_name_of_the_app() -> None:
    app = grete.App("billing", kafka=KAFKA)
    assert app.settings().kafka["client.id"].value == "billing"
    assert grete.App("billing", kafka={**KAFKA, "client.id": "own"}).settings().kafka["client.id"].value == "own"
