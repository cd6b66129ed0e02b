"""The second part of `make demo`: what becomes of records whose handler fails.

Five payments. The bank does not answer the first two times that it is asked for the second one: that is tried again and
succeeds. The card of the fourth has expired: after three attempts it ends in the dead letter topic, from where it comes
back when its owner has a new card.
"""

import json
import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import TypedDict

import grete
from tests.kafka import KafkaCluster, eventually

TOPIC = "demo-payments"
DEAD_LETTERS = f"{TOPIC}.dlq"
Say = Callable[[str], None]


class Payment(TypedDict):
    """What a record's value is decoded to."""

    id: str
    amount: int
    card: str


PAYMENTS: list[Payment] = [
    {"id": "payment-1", "amount": 10, "card": "ada's"},
    {"id": "payment-2", "amount": 25, "card": "bob's"},
    {"id": "payment-3", "amount": 40, "card": "cyd's"},
    {"id": "payment-4", "amount": 15, "card": "dan's"},
    {"id": "payment-5", "amount": 30, "card": "eve's"},
]


class CardExpiredError(Exception):
    """No attempt will change that."""


class Bank:
    """Fails as the story wants it."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self.expired = {"dan's"}
        self.paid: list[str] = []

    def charge(self, payment: Payment) -> None:
        """Raises what banks raise."""
        self._asked[payment["id"]] += 1
        if payment["id"] == "payment-2" and self._asked["payment-2"] <= 2:
            raise ConnectionError("the bank does not answer")
        if payment["card"] in self.expired:
            raise CardExpiredError(f"{payment['card']} card has expired")
        self.paid.append(payment["id"])


class Payments(grete.Consumer):
    """A consumer as a user would write it."""

    bank: Bank
    say: Say

    def consume(self) -> None:
        for message in self.messages:
            payment: Payment = message.payload
            self.say(f"{payment['id']}, attempt {self.attempt}")
            self.bank.charge(payment)
            self.say(f"{payment['id']} is paid: {payment['amount']}")


def make_app(bootstrap: str) -> grete.App:
    """An App as a user would write it."""
    app = grete.App("demo-payments", kafka={"bootstrap.servers": bootstrap})
    app.consumer(
        TOPIC,
        payload=Payment,
        max_messages=1,  # one a call, so that the log is easy to follow
        retry=grete.Retry(attempts=3, backoff="500ms..5s", jitter=0.0),
        dead_letter=DEAD_LETTERS,
    )(Payments)
    return app


class _Log(logging.Handler):
    """What Grete logs, without the tracebacks that a real log has."""

    def __init__(self, say: Say) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say(f"log: {record.levelname} {record.getMessage()}")


def show(kafka: KafkaCluster, say: Say) -> bool:
    """Tells the story; whether it went as it should."""
    kafka.create_topic(TOPIC, partitions=1)
    kafka.create_topic(DEAD_LETTERS, partitions=1)
    with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        records = [(payment["card"].encode(), json.dumps(payment).encode(), {"shop": b"demo"}) for payment in PAYMENTS]
        producer.produce_many(TOPIC, records).wait(30.0)

    say("")
    say("And when a handler fails? Five payments; the bank does not answer twice, and dan's card has expired.")

    def indented(text: str) -> None:
        say(f"  {text}")

    bank = Payments.bank = Bank()
    Payments.say = staticmethod(indented)
    app = make_app(kafka.bootstrap_servers)
    log, logger = _Log(indented), logging.getLogger("grete")
    logger.addHandler(log)
    logger.propagate = False
    app.start()
    try:
        eventually(lambda: len(bank.paid) == 4 and _dead_letters(app) == 1, 30.0, "four payments and a dead letter")
        say("")
        say("payment-2 was tried again, with growing waits. After three attempts payment-4 was put aside, so that")
        say("payment-5 need not wait for it. Its dead letter has all of the record, and says what has happened:")
        grete_command(kafka, indented, "dlq", "list", DEAD_LETTERS)
        grete_command(kafka, indented, "dlq", "show", DEAD_LETTERS, "0", "0")
        say("")
        say("Dan gets a new card, and the payment is sent back to where it came from:")
        bank.expired.clear()
        grete_command(kafka, indented, "dlq", "replay", DEAD_LETTERS, "--yes")
        eventually(lambda: len(bank.paid) == 5, 30.0, "the fifth payment")
        said = _dead_letters(app)
    finally:
        app.stop()
        logger.removeHandler(log)
        logger.propagate = True
    return sorted(bank.paid) == [payment["id"] for payment in PAYMENTS] and said == 1


def _dead_letters(app: grete.App) -> int:
    dead_letters: int = app.statistics()["counts"]["dead_letters"]
    return dead_letters


def grete_command(kafka: KafkaCluster, say: Say, *words: str) -> None:
    """Runs a command as it would be typed, and shows what it prints."""
    say(f"$ grete {' '.join(words)}")
    done = subprocess.run(
        [sys.executable, "-m", "grete", *words, "--bootstrap", kafka.bootstrap_servers],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    for line in done.stdout.splitlines():
        say(f"  {line}")
    if done.returncode:
        raise RuntimeError(f"grete {' '.join(words)} ended with {done.returncode}")
