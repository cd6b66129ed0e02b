"""Orders in, invoices out, with Celery: `celery -A examples.migration.celery.before worker -Q charge`."""

import os
from typing import Any

from celery import Celery, Task

app = Celery("billing", broker=f"confluentkafka://{os.environ.get('KAFKA', 'localhost:9092')}")
app.conf.update(
    # The transport polls once a second otherwise, and each poll may block for 5 s.
    broker_transport_options={"polling_interval": 0.05, "wait_time_seconds": 0.2},
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    # A queue is a topic; its records are Celery's messages around the arguments.
    task_routes={"charge": "charge", "invoice": "invoice", "failed": "failed"},
)


class DeadLetter(Task):  # type: ignore[misc]
    def on_failure(self, exc: Exception, _task_id: str, args: Any, _kwargs: Any, _info: Any) -> None:
        failed.delay(*args, type(exc).__name__)


@app.task(  # type: ignore[untyped-decorator]
    name="charge",
    base=DeadLetter,
    autoretry_for=(Exception,),
    max_retries=2,
    retry_backoff=True,
    retry_jitter=False,
)
def charge(order: dict[str, Any]) -> None:
    if order["amount"] <= 0:
        raise ValueError(f"amount {order['amount']}")
    invoice.delay({"order": order["id"], "total": order["amount"] * 119 // 100})


@app.task(name="invoice")  # type: ignore[untyped-decorator]
def invoice(invoice: dict[str, Any]) -> None:
    """Runs in another worker."""


@app.task(name="failed")  # type: ignore[untyped-decorator]
def failed(order: dict[str, Any], error: str) -> None:
    """Runs in no worker: the queue keeps what failed."""
