"""A declaration that cannot work is refused where it is written: with file and line, the cure, and nothing opened."""

import gc
import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

import grete
from grete._config import layers

pytestmark = pytest.mark.usefixtures("empty_directory")

HERE = Path(__file__)
KAFKA = {"bootstrap.servers": "localhost:9092"}


@dataclass
class Order:
    id: int


class Invoice(msgspec.Struct):
    id: int


class Orders(grete.Consumer):
    def consume(self) -> None:
        """Nothing."""


class Ticks(Orders):
    def tick(self) -> None:
        """Nothing."""


class AtEnd(Orders):
    def eof(self) -> None:
        """Nothing."""


def orders(messages: grete.Messages) -> None:
    """Nothing."""


def charge(order: Order) -> None:
    """Nothing."""


async def on_message(message: grete.Message) -> None:
    """Nothing."""


async def on_messages(messages: grete.Messages) -> None:
    """Nothing."""


def wrong(messages: grete.Messages, more: int) -> None:
    """Nothing."""


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def here(text: str, function: Callable[..., object]) -> str:
    """Where a line of a function's source is."""
    lines, first = inspect.getsourcelines(function)
    return f"{HERE}:{next(first + number for number, line in enumerate(lines) if text in line)}"


def wrong_signature(app: grete.App) -> None:
    app.consumer("orders")(wrong)  # this line


def unknown_option(app: grete.App) -> None:
    @app.consumer("orders", max_mesages=3)  # type: ignore[call-arg]  # this line
    class Other(grete.Consumer):
        def consume(self) -> None:
            """Nothing."""


def wrong_hook(app: grete.App) -> None:
    @app.consumer(  # this line
        "orders",
        max_messages=3,
    )
    class Other(grete.Consumer):
        def consume(self, messages: grete.Messages) -> None:  # type: ignore[override]
            """Nothing."""


def twice(app: grete.App) -> None:
    app.consumer("orders", "clicks")(Orders)  # first line
    app.consumer("views", "clicks")(orders)  # this line


def fast_backoff(app: grete.App) -> None:
    app.consumer("orders", backoff="fast")(Orders)  # type: ignore[call-arg]  # this line


def fast_retry(app: grete.App) -> None:
    @app.consumer("orders", retry=grete.Retry(backoff="fast"))  # this line
    class Other(grete.Consumer):
        def consume(self) -> None:
            """Nothing."""


def wrong_app(app: grete.App) -> None:
    grete.App("shop", max_wait="fast")  # this line


def avro_nowhere(app: grete.App) -> None:
    app.consumer("orders", payload=grete.payloads.Avro("registry"))(Orders)  # this line


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (wrong_signature, "consumer wrong: messages is a batch of records, and more: int would be the payload of one"),
        (unknown_option, 'consumer of orders has no setting "max_mesages"; did you mean "max_messages"?'),
        (wrong_hook, "wrong_hook.<locals>.Other.consume is called without arguments"),
        (twice, 'both read "clicks" in the App\'s group: a group gives each record to one of them'),
        (fast_backoff, 'no setting "backoff": it belongs to the retry policy: retry=grete.Retry(backoff="200ms..30s")'),
        (fast_retry, "Retry(backoff='fast'): a backoff is a first and a longest wait, like \"200ms..30s\""),
        (wrong_app, 'max_wait (from code): a duration is a number and a unit, like "30s", not "fast"'),
        (avro_nowhere, "Registry('registry'): the address of a registry is like \"http://localhost:8081\""),
    ],
)
def test_refused_with_file_and_line_and_nothing_opened(declare: Callable[[grete.App], None], says: str) -> None:
    app = grete.App("billing", kafka=KAFKA)
    gc.collect()  # what earlier tests of the process have left, which would close its files during this one
    threads, files = threading.active_count(), open_files()
    with pytest.raises(grete.ConfigError) as caught:
        declare(app)
    place = here("this line", declare)
    assert str(caught.value).startswith(f"{place}: ")
    assert caught.value.location == place
    assert says in str(caught.value)
    assert threading.active_count() <= threads
    assert open_files() <= files
    assert len(app.routes) == (1 if declare is twice else 0)


def test_duplicates_name_both_places() -> None:
    with pytest.raises(grete.ConfigError) as caught:
        twice(grete.App("billing", kafka=KAFKA))
    assert f"Orders.consume ({here('first line', twice)}) and orders ({here('this line', twice)})" in str(caught.value)


def test_a_file_below_the_working_directory_is_named_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE.parent.parent)
    app = grete.App("billing", kafka=KAFKA)
    app.consumer("orders")(Orders)
    assert app.routes[0].location.startswith("unit/test_declarations.py:")


@pytest.mark.parametrize(
    ("handler", "settings", "says"),
    [
        (Orders, {"concurrency": "keys"}, 'it is "partition", "key" or "unordered", not \'keys\'; did you mean "key"?'),
        (Orders, {"concurrency": 3}, r"that run at once is a setting of the App: grete\.App\(\.\.\., workers=3\)"),
        (Orders, {"concurrency": "keys"}, 'it is "partition", "key" or "unordered", not \'keys\'; did you mean "key"'),
        (Orders, {"offsets": "at-most-once"}, 'did you mean "at_most_once"'),
        (Orders, {"max_in_flight": 10}, 'max_in_flight counts for concurrency="key" or "unordered"'),
        (Orders, {"max_in_flight": 0, "concurrency": "key"}, "from 1 up, not 0"),
        (Orders, {"max_in_flight": 1 << 32, "concurrency": "key"}, "more than the 4294967295 that are possible"),
        (Orders, {"max_concurrency": 0}, "from 1 up, not 0"),
        (Orders, {"offset_map": True}, 'it is for concurrency="key" or "unordered", or for offsets="manual"'),
        (Orders, {"offset_map": "yes", "concurrency": "key"}, "it is True or False"),
        (Orders, {"concurrency": "key", "offsets": "at_most_once"}, "would pass records which no call has got"),
        (Orders, {"concurrency": "unordered", "offsets": "at_most_once"}, "leave concurrency out"),
        (Orders, {"max_unmarked": 10}, 'max_unmarked counts for offsets="manual"'),
        (orders, {"offsets": "manual"}, r"needs a consumer class, which marks with self\.mark\(...\)"),
        (Orders, {"offsets": "at_most_once", "retry": grete.Retry()}, "one attempt only: leave retry out"),
        (Orders, {"tick": "10s"}, r"there is none: define tick\(self\)"),
        (orders, {"tick": "10s"}, "a function has none"),
        (Ticks, {}, 'its tick method would never run: say how often, like tick="10s"'),
        (Ticks, {"tick": 0}, "at least 1ms"),
        (Orders, {"eof": True}, "define a method eof on the consumer class"),
        (Orders, {"delay": -1}, "not negative"),
        (Orders, {"delay": "-5m"}, "a number and a unit"),
        (Orders, {"max_age": "0s"}, "at least 1ms"),
        (Orders, {"max_age": "5m", "delay": "5m"}, "too old before it is due"),
        (Orders, {"dead_letter": "orders"}, 'dead_letter="orders" is a topic that the route reads'),
        (Orders, {"dead_letter": True}, "a topic is a string, not True"),
        (Orders, {"dead_letter": "a b"}, "no topic name"),
        (Orders, {"dlq": "orders.dlq"}, "it is called dead_letter"),
        (Orders, {"max_messages": 1, "max_wait": "1s"}, "max_messages=1 wants no more"),
        (Orders, {"retry": 3}, r"write retry=grete\.Retry\(attempts=3\)"),
        (Orders, {"retry": "often"}, r"it is a grete\.Retry, like"),
        (Orders, {"rate_limit": "fast"}, 'like "100/s" or "5000/min", or a whole number per second, not \'fast\''),
        (Orders, {"rate_limit": "10/parsec"}, '"parsec" is no unit of time'),
        (Orders, {"rate_limit": "10/"}, "has no unit"),
        (Orders, {"rate_limit": 0}, "at least one record"),
        (Orders, {"rate_limit": 1.5}, "records per time"),
        (Orders, {"priority": "high"}, "with priority=5 a route is served as if it had waited 5 s longer"),
        (Orders, {"max_bytes": "16"}, "has no unit"),
        (Orders, {"stall_after": "0s"}, '"none" switches it off'),
        (Orders, {"loop": "uvloop"}, r"it is a setting of the App: grete\.App\(\.\.\., loop=\.\.\.\)"),
        (Orders, {"transactional": True}, 'no setting "transactional": it is called exactly_once'),
        (charge, {"payload": "json"}, "the function takes Order: leave payload out, and Order is read from JSON"),
        (charge, {"payload": Invoice}, "payload=Invoice gives Invoice, and the function takes Order: name the type in"),
        (Orders, {"payload": "avro"}, 'the only format with a short name is "json"'),
        (Orders, {"payload": 3}, 'payload=3: payload is a type, "json", a function of the bytes'),
        (Orders, {"payload": Orders}, "Orders is not a type that can be read from JSON.*lambda value: Orders"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_cure(handler: Any, settings: dict[str, Any], says: str) -> None:
    app = grete.App("billing", kafka=KAFKA)
    with pytest.raises(grete.ConfigError, match=rf"^{HERE}:\d+: consumer .*{says}"):
        app.consumer("orders", **settings)(handler)
    assert not app.routes


def keywords(handler: Any = Orders, app: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    made = grete.App("billing", kafka=KAFKA, **(app or {}))
    made.consumer("orders", **settings)(handler)
    return made.routes[0].native_settings(made.settings())


def test_a_route_without_settings_is_what_the_app_says() -> None:
    assert keywords() == {
        "id": 0,
        "name": "Orders.consume",
        "topics": ["orders"],
        "pool": "threads",
        "concurrency": "partition",
        "key_slots": 0,
        "shares": 1,
        "max_concurrency": None,
        "max_messages": 500,
        "max_bytes": 16 << 20,
        "max_wait": 0.0,
        "max_in_flight": 4096,
        "offsets": "auto",
        "queue": False,
        "max_unmarked": 100_000,
        "offset_map": False,
        "attempts": 5,
        "backoff": (0.2, 30.0),
        "jitter": 0.2,
        "dead_letter": False,
        "priority": 0,
        "rate_limit": None,
        "delay": None,
        "max_age": None,
        "dedup": None,
        "eof": False,
        "tick": None,
        "stall_after": 30.0,
        "handler_timeout": None,
    }


@pytest.mark.parametrize(
    ("handler", "app", "settings", "expected"),
    [
        (Orders, {"max_messages": 7, "max_wait": "2s"}, {}, {"max_messages": 7, "max_wait": 2.0}),
        (Orders, {"max_messages": 7, "max_wait": "2s"}, {"max_wait": 0}, {"max_messages": 7, "max_wait": 0.0}),
        (Orders, {"handler_timeout": "5m"}, {}, {"handler_timeout": 300.0}),
        (Orders, {"handler_timeout": "5m"}, {"handler_timeout": "none"}, {"handler_timeout": None}),
        (Orders, {"stall_after": "none"}, {}, {"stall_after": None}),
        (Orders, {"stall_after": "none"}, {"stall_after": "1m"}, {"stall_after": 60.0}),
        (Orders, {"workers": 3}, {"concurrency": "key"}, {"key_slots": 192, "shares": 3, "concurrency": "key"}),
        (Orders, {}, {"concurrency": "unordered", "offset_map": True}, {"key_slots": 320, "offset_map": True}),
        (on_message, {}, {"concurrency": "key"}, {"key_slots": 0, "shares": 0, "pool": "loop"}),
        (on_messages, {}, {"concurrency": "unordered"}, {"key_slots": 0, "shares": 64, "pool": "loop"}),
        (charge, {"workers": 3}, {"concurrency": "unordered"}, {"key_slots": 192, "shares": 3, "pool": "threads"}),
        (charge, {}, {"max_concurrency": 2}, {"max_concurrency": 2}),
        (Orders, {}, {"offsets": "manual", "max_unmarked": 9, "offset_map": True}, {"max_unmarked": 9}),
        (Orders, {}, {"concurrency": "key", "max_unmarked": 9}, {"max_unmarked": 9}),
        (Orders, {}, {"offsets": "at_most_once", "dead_letter": "d"}, {"attempts": 1, "dead_letter": True}),
        (Orders, {}, {"offsets": "at_most_once", "retry": grete.Retry(attempts=1)}, {"attempts": 1}),
        (Orders, {}, {"retry": grete.Retry(attempts=None, backoff=1, jitter=0)}, {"attempts": None, "jitter": 0}),
        (Orders, {}, {"rate_limit": "5000/min"}, {"rate_limit": (5000, 60.0)}),
        (Orders, {}, {"rate_limit": "10 / 30s"}, {"rate_limit": (10, 30.0)}),
        (Orders, {}, {"priority": -3}, {"priority": -3}),
        (Orders, {}, {"rate_limit": 100}, {"rate_limit": (100, 1.0)}),
        (
            Orders,
            {},
            {"delay": "5m", "max_age": "1h", "priority": -3},
            {"delay": 300.0, "max_age": 3600.0, "priority": -3},
        ),
        (Orders, {}, {"delay": 0, "max_bytes": "1MB"}, {"delay": 0.0, "max_bytes": 1_000_000}),
        (Ticks, {}, {"tick": "10s"}, {"tick": 10.0, "eof": False}),
        (AtEnd, {}, {}, {"eof": True, "pool": "threads"}),
        (charge, {}, {"max_in_flight": 9, "concurrency": "key"}, {"max_in_flight": 9, "name": "charge"}),
    ],
)
def test_settings_reach_the_native_part(
    handler: Any, app: dict[str, Any], settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = keywords(handler, app, **settings)
    assert {name: found[name] for name in expected} == expected


def test_settings_of_the_route_have_their_place_in_the_typed_dict_and_in_the_table() -> None:
    from grete._config import registry
    from grete._config.swarm_settings import SWARM_SETTINGS
    from grete._routing.setting_types import AppSettings, RouteSettings, SwarmTable

    assert set(RouteSettings.__annotations__) == set(registry.ROUTE_SETTINGS)
    assert set(AppSettings.__annotations__) == {*registry.SETTINGS, "swarm"}
    assert set(SwarmTable.__annotations__) == set(SWARM_SETTINGS)
    assert all(setting.help for setting in (registry.SETTINGS | registry.ROUTE_SETTINGS).values())


def test_a_route_makes_consumers_and_knows_its_decoders() -> None:
    app = grete.App("billing", kafka=KAFKA)
    app.consumer("orders")(Orders)
    app.consumer("clicks", "views", payload="json")(orders)
    app.consumer("charges", payload=Order)(charge)
    plain, clicks, charges = app.routes
    assert isinstance(plain.new_consumer(), Orders)
    assert plain.new_consumer() is not plain.new_consumer()
    assert isinstance(clicks.new_consumer(), grete.Consumer)
    assert (plain.decoders(), clicks.style, charges.style) == (None, "messages", "payload")
    decoders = clicks.decoders()
    assert decoders is not None
    assert {topic: decode(b"[1]") for topic, decode in decoders.items()} == {"clicks": [1], "views": [1]}
    assert layers.parse_layer({}, {}, "code") == layers.Layer()


def test_what_the_type_checker_accepts_is_accepted() -> None:
    from tests.unit.typed_declarations import app

    assert {route.topics[0]: (route.style, route.is_async) for route in app.routes} == {
        "all-settings": ("class", False),
        "async-class": ("class", True),
        "bare": ("messages", False),
        "batch": ("messages", False),
        "direct": ("messages", False),
        "one": ("message", False),
        "one-typed": ("message", False),
        "batch-typed": ("messages", True),
        "struct": ("payload", False),
        "structs": ("payload", False),
        "batches": ("messages", False),
        "model": ("payload", False),
        "data": ("payload", True),
        "typed": ("payload", True),
        "plain": ("payload", True),
        "own": ("payload", False),
        "later-batch": ("messages", True),
        "later-one": ("message", True),
        "method": ("message", False),
        "callable": ("messages", False),
        "partial": ("message", False),
        "registry": ("payload", False),
    }


def test_the_native_part_accepts_each_route() -> None:
    from tests.unit.typed_declarations import app

    registry = app.settings()
    for route in app.routes:
        core = route.to_native(registry)
        assert (core.id, core.name, core.topics) == (route.id, route.name, list(route.topics))
