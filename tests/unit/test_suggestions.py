"""Names that users bring from elsewhere, or misspell, are answered with the right one."""

import warnings
from typing import Any

import pytest

import grete
import grete.client
from grete._config import layers
from grete.app import App

KAFKA = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: grete.Retry(max_attempts=3), 'Retry has no argument "max_attempts": it is called attempts'),  # type: ignore[call-arg]
        (lambda: grete.Retry(max_backoff="3s"), 'the first and the longest wait: "200ms..30s"'),  # type: ignore[call-arg]
        (lambda: grete.Retry(atempts=3), 'has no argument "atempts"; did you mean "attempts"?'),  # type: ignore[call-arg]
        (
            lambda: grete.client.Producer(bootstrap_servers="x:1"),  # type: ignore[call-arg]
            r'Producer has no argument "bootstrap_servers": .*\{"bootstrap.servers": \.\.\.\}',
        ),
        (lambda: grete.client.Producer(KAFKA, linger_ms=3), r'\{"linger.ms": \.\.\.\}'),  # type: ignore[call-arg]
        (lambda: grete.client.Producer(KAFKA, max_bloc=3), 'did you mean "max_block"'),  # type: ignore[call-arg]
        (lambda: grete.client.Consumer(group_id="g"), r'Consumer has no argument "group_id": .*"group.id"'),  # type: ignore[call-arg]
        (lambda: grete.client.Admin(bootstrap="x:1"), r'Admin has no argument "bootstrap": .*"bootstrap.servers"'),  # type: ignore[call-arg]
        (lambda: App("a", bootstrap_servers="x:1"), r'kafka=\{"bootstrap.servers": \.\.\.\} in code'),  # type: ignore[call-arg]
        (lambda: App("a", concurrency=10), "handlers that run at once is workers=10"),  # type: ignore[call-arg]
        (lambda: App("a", threads=10), r"it is called workers: grete.App\(\.\.\., workers=\.\.\.\)"),  # type: ignore[call-arg]
        (lambda: App("a").consumer("t", dlq="x"), "it is called dead_letter"),  # type: ignore[call-arg]
        (lambda: App("a").consumer("t", concurrency=10), r"grete.App\(\.\.\., workers=10\)"),  # type: ignore[arg-type]
        (lambda: App("a", kafka={"bootstrap.server": "x:1"}), 'did you mean "bootstrap.servers"\\? .from code'),
        (lambda: App("a", kafka={"linger.ms": "soon"}), "a whole number of milliseconds"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one_and_the_line(make: Any, says: str) -> None:
    with pytest.raises(grete.ConfigError, match=rf"test_suggestions\.py:\d+: .*{says}"):
        make()


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("GRETE_BOOTSTRAP", "GRETE_KAFKA_BOOTSTRAP_SERVERS"),
        ("GRETE_BOOTSTRAP_SERVERS", "GRETE_KAFKA_BOOTSTRAP_SERVERS"),
        ("GRETE_WORKER", 'did you mean "workers"'),
        ("GRETE_SWARM_NODE", 'did you mean "nodes"'),
        ("GRETE_RETRY", "it is a setting of a route"),
    ],
)
def test_an_environment_variable_is_answered_with_the_right_one(variable: str, says: str) -> None:
    with pytest.raises(grete.ConfigError, match=f"variable {variable}: .*{says}"):
        layers.environment_layer({variable: "3"})


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("bootstrap", r"\[kafka\] in grete.toml"),
        ("kafak", 'did you mean "kafka"'),
        ("wokers", 'did you mean "workers"'),
    ],
)
def test_a_key_of_the_file_is_answered_with_the_right_one(tmp_path: Any, key: str, says: str) -> None:
    file = tmp_path / "grete.toml"
    file.write_text(f"{key} = 3\n")
    with pytest.raises(grete.ConfigError, match=rf"grete\.toml has no setting \"{key}\".*{says}"):
        layers.file_layer({"GRETE_CONFIG": str(file)})


def consumer_with(name: str, also: str = "") -> type[grete.Consumer]:
    body = {"consume": lambda self: None, name: lambda self: None}
    if also:
        body[also] = lambda self: None
    return type("Orders", (grete.Consumer,), body)


@pytest.mark.parametrize(("name", "hook"), [("on_assign", "initialize"), ("on_revoke", "revoked"), ("on_eof", "eof")])
def test_a_callback_of_another_library_is_refused(name: str, hook: str) -> None:
    with pytest.raises(grete.ConfigError, match=rf"Orders\.{name} would never be called: the hook is called {hook}$"):
        App("a").consumer("t")(consumer_with(name))


@pytest.mark.parametrize(
    ("name", "hook"), [("close", "shutdown"), ("setup", "initialize"), ("revoke", "revoked"), ("shut_down", "shutdown")]
)
def test_a_method_that_looks_like_a_hook_is_warned_of(name: str, hook: str) -> None:
    with pytest.warns(
        UserWarning, match=rf"Orders\.{name} is never called by Grete: the hook is called {hook}"
    ) as caught:
        App("a").consumer("t")(consumer_with(name))
    assert caught[0].filename.endswith("test_suggestions.py")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        App("a").consumer("t")(consumer_with(name, hook))  # then it is a method of the class's own


@pytest.mark.parametrize("name", ["charge", "resume_later", "total", "flush", "_close"])
def test_other_methods_are_the_classes_own(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        App("a").consumer("t")(consumer_with(name))
