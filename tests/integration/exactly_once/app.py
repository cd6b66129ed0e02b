"""App for processes that are stopped and killed: copies each record twice, slowly, and fails at some."""

from __future__ import annotations

import os
import time

import grete

# Classic, because processes are killed and the session shall be short on all brokers.
PROTOCOL = os.environ.get("EOS_PROTOCOL", "classic")
TOPIC = os.environ["EOS_TOPIC"]

app = grete.App(
    os.environ["EOS_GROUP"],
    kafka={
        "bootstrap.servers": os.environ["EOS_SERVERS"],
        "session.timeout.ms": int(os.environ.get("EOS_SESSION", "6000")),
        "transaction.timeout.ms": int(os.environ.get("EOS_TRANSACTION_TIMEOUT", "10000")),
        "group.protocol": PROTOCOL,
        **({"heartbeat.interval.ms": 500} if PROTOCOL == "classic" else {}),
    },
    workers=2,
    exactly_once=True,
    transaction_interval=os.environ.get("EOS_INTERVAL", "20ms"),
    shutdown_timeout="20s",
)

PAUSE = float(os.environ.get("EOS_PAUSE", "0.002"))


@app.consumer(TOPIC, concurrency=os.environ.get("EOS_CONCURRENCY", "partition"))  # type: ignore[arg-type]
def copy(message: grete.Message, producer: grete.Producer, attempt: grete.Attempt) -> None:
    value = message.value or b""
    for number in range(2):
        producer.produce(f"{TOPIC}.out", b"%b-%d" % (value, number), key=message.key)
    time.sleep(PAUSE)
    if value.endswith(b"7") and attempt == 1:
        raise ValueError("fails once")
