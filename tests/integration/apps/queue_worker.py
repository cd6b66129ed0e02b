"""App with a queue whose handler takes `WORK` seconds, and writes down what it has done."""

import os
import time

import grete
from tests.integration.apps import app_log

WORK = float(os.environ.get("WORK", "0.02"))

app = grete.App(
    "queue-worker",
    kafka={"bootstrap.servers": os.environ["BOOTSTRAP"]},
    group=os.environ["GROUP"],
    workers=int(os.environ.get("WORKERS", "8")),
)


@app.consumer(os.environ["TOPIC"], queue=True)
def work(message: grete.Message, attempt: grete.Attempt) -> None:
    """Does the work."""
    value = (message.value or b"").decode()
    app_log.write("begun", value=value, attempt=int(attempt))
    time.sleep(WORK)
    app_log.write("done", value=value, attempt=int(attempt))
