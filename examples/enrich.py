"""An asynchronous App: each sign-up is completed by a slow service, and goes on to another topic.

As many wait for the service as there are keys at work, on one event loop in one thread. What the service cannot do now
is tried again; the next topic has a record before this one's is committed.

    export GRETE_KAFKA_BOOTSTRAP_SERVERS=localhost:9092
    grete topics create signups --partitions 2
    grete topics create signups.dlq --partitions 1
    grete topics create members --partitions 2
    grete run examples.enrich:app
    echo 'ada {"name": "Ada", "country": "GB"}' | grete produce signups --key-separator ' '
    grete consume members --from earliest
"""

import asyncio
import json
import logging
from typing import Any, TypedDict

import grete

app = grete.App("enrich-example")

CURRENCIES = {"GB": "GBP", "FR": "EUR", "US": "USD"}


class Signup(TypedDict):
    """Decoded value of a record."""

    name: str
    country: str


async def ask(country: str) -> str:
    """The slow service."""
    await asyncio.sleep(0.05)
    return CURRENCIES[country]


@app.consumer(
    "signups",
    payload=Signup,
    concurrency="key",
    # The service knows no more of an unknown country in a second: KeyError is not worth another attempt.
    retry=grete.Retry(attempts=5, backoff="200ms..10s", never=KeyError),
    dead_letter="signups.dlq",
)
class Enrich(grete.Consumer):
    """One instance per slot of keys: sign-ups of one key come one after the other, in order."""

    async def consume(self) -> None:
        for message in self.messages:
            signup: Signup = message.payload
            member: dict[str, Any] = {**signup, "currency": await ask(signup["country"])}
            # Returns when the broker has it: only then does the sign-up count as processed.
            await self.producer.send("members", json.dumps(member).encode(), key=message.key)
            self.mark(message)


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    app.run()
