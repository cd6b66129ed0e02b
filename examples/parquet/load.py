"""Writes clicks to try the example with: `python -m examples.parquet.load 100000`."""

import json
import random
import sys

from grete.client import Producer

chance = random.Random(1)
count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
with Producer.from_config() as producer:
    for _ in range(count):
        user = f"user-{chance.randrange(100)}"
        value = {"user": user, "page": f"/page/{chance.randrange(10)}", "seconds": round(chance.expovariate(0.1), 3)}
        producer.produce("clicks", json.dumps(value).encode(), key=user.encode())
print(f"{count} clicks written")
