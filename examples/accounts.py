"""Many workers on one partition: movements of an account stay in order, accounts do not wait for each other.

    export GRETE_KAFKA_BOOTSTRAP_SERVERS=localhost:9092
    grete topics create movements --partitions 1
    grete topics create movements.dlq --partitions 1
    grete run examples.accounts:app
    printf 'ada 5\\nbob 7\\nada -3\\n' | grete produce movements --key-separator ' '

With `concurrency="partition"`, the default, one call at a time would have the partition to itself.
"""

import logging
import threading
from collections import Counter

import grete

app = grete.App("accounts-example", workers=4)
logger = logging.getLogger("accounts")

# Several threads book at once, though never on the same account.
balances: Counter[str] = Counter()
lock = threading.Lock()


def amount(value: bytes) -> int:
    """Any callable that takes bytes can be a payload; what it raises makes the record a DecodeError."""
    return int(value)


@app.consumer(
    "movements",
    concurrency="key",
    payload=amount,
    retry=grete.Retry(attempts=3, backoff="100ms..2s"),
    dead_letter="movements.dlq",
)
def book(message: grete.Message) -> None:
    """Called once a record; it counts as processed when this returns."""
    account = (message.key or b"?").decode()
    with lock:
        if balances[account] + message.payload < 0:
            raise grete.Reject(f"{account} has {balances[account]} and wants {-message.payload}")
        balances[account] += message.payload
        logger.info("%s has %d", account, balances[account])


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    app.run()
