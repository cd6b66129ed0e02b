"""Reports as processes write them, without a process."""

import json
from typing import Any


def facts(name: str = "shop/host-1/7-abc", **more: object) -> dict[str, Any]:
    app, host, rest = name.split("/")
    return {
        "id": name,
        "app": app,
        "node": None,
        "host": host,
        "pid": int(rest.partition("-")[0]),
        "parent": 1,
        "started": 1_000_000,
        "grete": "0.1.0",
        "python": "3.13.1",
    } | more


def lane(partition: int = 0, **more: object) -> dict[str, Any]:
    return {
        "group": "shop",
        "topic": "orders",
        "handler": "charge",
        "partition": partition,
        "state": "idle",
        "position": 100,
        "committable": 100,
        "end": 100,
        "lag": 0,
        "oldest": 0,
        "in_flight": 0,
        "queued": 0,
        "attempt": 1,
        "running": None,
        "paused": None,
        "progress": 1_000_000,
        "stalled": 0,
        "failure": None,
        "waits_for": None,
        "unmoved": 0,
        "stall": None,
    } | more


def report(name: str = "shop/host-1/7-abc", *, lanes: Any = None, records: int = 0, **more: Any) -> bytes:
    rows = [lane()] if lanes is None else lanes
    names = sorted({row[field] for row in rows for field in ("group", "topic", "handler")})
    content = {
        "v": 1,
        "seq": 0,
        "at": 1_000_000,
        "every": 3000,
        "process": facts(name),
        "state": "running",
        "ready": True,
        "uptime": 60_000,
        "dropped": 0,
        "rss": 64 << 20,
        "cpu": 1000,
        "fds": 30,
        "workers": 5,
        "busy": 1,
        "gil_wait": 0,
        "loop_wait": None,
        "live": True,
        "lag": sum(row["lag"] or 0 for row in rows),
        "fetched_bytes": 0,
        "fetched_records": records,
        "reconnects": 0,
        "produced_records": 0,
        "produced_bytes": 0,
        "produce_failures": 0,
        "totals": [records, records, 0, 0, 0, 0, 0, 0, 0, 10 * records],
        "groups": [
            {
                "group": "shop",
                "state": "stable",
                "since": 5.0,
                "ready": True,
                "generation": 1,
                "partitions": len(rows),
                "instance": None,
                "connections": 1,
                "login_failure": None,
                "authorization_failure": None,
            }
        ],
        "handlers": [["charge", records, records, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10 * records, 25]],
        "problems": [],
        "jobs": [],
        "stacks": [],
        "lanes": [
            [names.index(row["group"]), names.index(row["topic"]), names.index(row["handler"]), *list(row.values())[3:]]
            for row in rows
        ],
        "lanes_left_out": 0,
        "names": names,
    } | more
    return json.dumps(content).encode()


def settings(name: str = "shop/host-1/7-abc", **route: object) -> bytes:
    own = {
        "handler": "charge",
        "topics": ["orders"],
        "group": "shop",
        "location": "shop.py:7",
        "concurrency": "key",
        "attempts": 3,
        "dead_letter": "orders.dlq",
        "publish": "invoices",
    } | route
    content = {
        "v": 1,
        "process": facts(name),
        "settings": [["workers", "5", "default"]],
        "kafka": [["bootstrap.servers", "localhost:9092", "code"]],
        "routes": [own],
    }
    return json.dumps(content).encode()


def error(**more: object) -> bytes:
    content = {
        "v": 1,
        "at": 1_000_000,
        "event": "consumer.error",
        "process": {"id": "shop/host-1/7-abc", "app": "shop", "node": None, "host": "host-1", "pid": 7},
        "handler": "charge",
        "group": "shop",
        "topic": "orders",
        "partition": 2,
        "offset": 41,
        "attempt": 1,
        "decision": "retry",
        "class": "shop.PaymentError",
        "message": "amount -1",
        "traceback": (
            'Traceback (most recent call last):\n  File "shop.py", line 9, in charge\n    raise\n'
            "shop.PaymentError: amount -1\n"
        ),
    } | more
    return json.dumps(content).encode()
