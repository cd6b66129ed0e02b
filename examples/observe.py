"""An App that one can look into: what listeners hear, and what they make of it.

    export GRETE_KAFKA_BOOTSTRAP_SERVERS=localhost:9092
    grete topics create payments --partitions 2
    grete topics create payments.dlq --partitions 1
    grete run examples.observe:app --log-level debug --probes 8080
    echo 'ada {"amount": 3}' | grete produce payments --key-separator ' '
    echo 'ada {"amount": -3}' | grete produce payments --key-separator ' '
    curl localhost:8080/metrics

With a Datadog agent at hand (DD_AGENT_HOST or DD_DOGSTATSD_URL), metrics go there, too.
"""

import logging
import os
import threading
from dataclasses import dataclass

import grete
from grete.instrumentation import Event
from grete.instrumentation.dogstatsd import DogStatsD
from grete.instrumentation.job_logger import JobLogger

app = grete.App("observe-example", workers=2, statistics_interval="5s")
logger = logging.getLogger("observe-example")

# A custom event. `if CHARGED` costs a few nanoseconds without a listener.
CHARGED = app.monitor.declare("shop.charged")


@dataclass
class Payment:
    """Decoded value of a record."""

    amount: int


@app.consumer("payments", retry=grete.Retry(attempts=2, backoff="100ms..1s"), dead_letter="payments.dlq")
def charge(payment: Payment) -> None:
    """Charges a payment and emits an event of it."""
    if payment.amount < 0:
        raise grete.Reject(f"a payment of {payment.amount}")
    if CHARGED:
        CHARGED.emit(amount=payment.amount)


class Cashier:
    """Its methods are called like the events that they hear of, in the thread where these happen."""

    def __init__(self) -> None:
        # Handlers run in several threads, and so do those who listen to them.
        self.lock = threading.Lock()
        self.charged = 0

    def on_shop_charged(self, occurred: Event) -> None:
        """Ours."""
        with self.lock:
            self.charged += occurred["amount"]

    def on_consumer_dead_letter(self, occurred: Event) -> None:
        """A real listener would page someone. Fields with a question mark in docs/events.md are not always there."""
        if "dead_letter" in occurred:  # else it could not be written there, and waits
            place = f"{occurred['topic']}[{occurred['partition']}]"
            logger.error("%s has given up offset %d of %s", occurred["handler"], occurred["offset"], place)

    def on_statistics_emitted(self, occurred: Event) -> None:
        """Each `statistics_interval`, and at the end."""
        statistics = occurred["statistics"]
        waiting = sum(lane["lag"] or 0 for lane in statistics["lanes"])
        logger.info(
            "charged %d so far; %d records wait, %d of %d workers are busy",
            self.charged,
            waiting,
            statistics["busy"],
            statistics["workers"],
        )


app.monitor.subscribe(Cashier())
app.monitor.subscribe(JobLogger())
if "DD_AGENT_HOST" in os.environ or "DD_DOGSTATSD_URL" in os.environ:
    app.monitor.subscribe(DogStatsD())
