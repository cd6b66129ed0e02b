"""Django: settings, and database connections around jobs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import asyncio, os, sys
from django.conf import settings
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "a.sqlite3"}},
    INSTALLED_APPS=["grete.django"],
    GRETE=%s,
)
import django
django.setup()
import grete, grete.django
from grete import testing
from django.db import connection, connections
"""


def run(directory: Path, settings: str, body: str) -> str:
    """Runs a program with these `GRETE` settings; returns what it prints. Django can be set up once a process."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT % settings + body],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout + done.stderr


def test_settings_are_djangos_and_arguments_have_precedence(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        '{"app": "shop:app", "kafka": {"bootstrap.servers": "a:1", "client.id": "x"}, "workers": 7, "max_messages": 5}',
        """
app = grete.django.App("shop", kafka={"client.id": "y"}, workers=3)
s = app.settings()
print(s["workers"], s["max_messages"], dict(s.kafka_pairs())["client.id"], dict(s.kafka_pairs())["bootstrap.servers"])
""",
    )
    assert out == "3 5 y a:1\n"


@pytest.mark.parametrize(
    ("settings", "text"),
    [("3", "settings.GRETE is a dict"), ('{"kafka": 3}', 'settings.GRETE["kafka"]'), ('{"worker": 3}', "workers")],
)
def test_wrong_settings_name_themselves(tmp_path: Path, settings: str, text: str) -> None:
    out = run(tmp_path, settings, 'app = grete.django.App("shop")')
    assert "ConfigError" in out
    assert text in out


def test_connections_are_closed_around_each_job(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        "{}",
        """
app = grete.django.App("shop")
seen = []

@app.consumer("orders")
def handle(message: grete.Message):
    seen.append(connection.connection)
    with connection.cursor() as cursor:
        cursor.execute("select 1")
    assert connection.connection is not None

connection.ensure_connection()
testing.consume(app, "orders", [b"1"])
print(seen, connection.connection)
""",
    )
    assert out == "[None] None\n"


def test_connections_of_asynchronous_handlers_are_closed_in_their_thread(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        "{}",
        """
from asgiref.sync import sync_to_async
app = grete.django.App("shop")

def query():
    connection.ensure_connection()
    return connection.connection is not None

@app.consumer("orders")
async def handle(message: grete.Message):
    print(await sync_to_async(query)())

async def main():
    await testing.consume_async(app, "orders", [b"1"])
    print(await sync_to_async(lambda: connection.connection)())

asyncio.run(main())
""",
    )
    assert out == "True\nNone\n"


def test_a_fork_closes_idle_connections_first(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        "{}",
        """
grete.django.close_all_before_fork()
connection.ensure_connection()
pid = os.fork()
if pid == 0:
    connection.ensure_connection()
    child = os.fork()  # a child of a node: its connections are its own
    os._exit(connection.connection is None)
print(os.waitpid(pid, 0)[1], connection.connection)
""",
    )
    assert out == "0 None\n"


def test_call_command(tmp_path: Path) -> None:
    out = run(
        tmp_path,
        "{}",
        """
from django.core.management import call_command
try:
    call_command("grete", "run", "nowhere:app")
except SystemExit as end:
    print(end.code)
""",
    )
    assert 'there is no module "nowhere"' in out
    assert "\n2\n" in f"\n{out}"
