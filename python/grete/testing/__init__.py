"""Tests of handlers and Apps: without a broker, on embedded brokers, and with faults.

```
from grete import testing

def test_orders():  # no broker: records in, marks, produced records and dead letters out
    run = testing.consume(app, "orders", [Order(1), b"not json", Order(3)])
    assert run.marked == [0, 2]
    assert run.dead[0].error == "DecodeError"

def test_order_flow(kafka):  # pytest's fixture: brokers in this process
    with kafka.run(app) as t:
        kafka.produce("orders", Order(1), key="a")
        t.settle()
    assert kafka.committed("orders") == {0: 1}
```

`consume` runs the dispatcher, the retries and the hooks of a running App on a virtual clock; `message` and `messages`
make records for a handler that a test calls itself. `Kafka` is the type of the fixture; `explore` runs a scenario with
other faults for each seed. docs/testing.md has recipes.
"""

from typing import TYPE_CHECKING, Any

from grete.testing._consume import consume, consume_async
from grete.testing._records import Record, message, messages
from grete.testing._result import DeadLetter, Failure, Produced, Records, Run

if TYPE_CHECKING:
    from grete.testing._kafka.faults import NeedsEmbeddedBrokerError, UnusedFaultWarning
    from grete.testing._kafka.fixture import Kafka, explore
    from grete.testing._kafka.running import RunningTestApp

__all__ = [
    "DeadLetter",
    "Failure",
    "Kafka",
    "NeedsEmbeddedBrokerError",
    "Produced",
    "Record",
    "Records",
    "Run",
    "RunningTestApp",
    "UnusedFaultWarning",
    "consume",
    "consume_async",
    "explore",
    "message",
    "messages",
]

_KAFKA = {
    "Kafka": "fixture",
    "NeedsEmbeddedBrokerError": "faults",
    "RunningTestApp": "running",
    "UnusedFaultWarning": "faults",
    "explore": "fixture",
}


def __getattr__(name: str) -> Any:
    """Imports the part with brokers when it is first used."""
    module = _KAFKA.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"grete.testing._kafka.{module}"), name)
