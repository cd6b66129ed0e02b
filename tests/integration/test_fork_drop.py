"""P44: a child that throws away what it has inherited, or just ends, neither hangs nor crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.jars import ROOT
from tests.kafka.processes import end, spawn

# No broker: what is dropped is at work all the time, on connections and records that lead nowhere.
SCRIPT = """
import faulthandler, gc, os, select, socket, sys
import grete
how = sys.argv[1]

server = socket.create_server(("127.0.0.1", 0))
address = "127.0.0.1:%d" % server.getsockname()[1]
settings = {"bootstrap.servers": address, "group.id": "g"}
producer = grete.client.Producer(settings, max_block=0.3)
clients = [producer, grete.client.Consumer(settings), grete.client.Admin(settings)]
del producer
clients[1].subscribe(["orders"])
connection, _ = server.accept()
for call in (lambda: clients[0].produce("orders", b"value"), lambda: clients[2].topics(timeout=0.3)):
    try:
        call()
    except grete.GreteError:
        pass

for _ in range(10):
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(10.0, exit=True)
        if how == "exit":
            faulthandler.cancel_dump_traceback_later()
            sys.exit(0)
        if how == "leave":
            faulthandler.cancel_dump_traceback_later()
            with clients[0], clients[1], clients[2]:
                sys.exit(0)
        if how == "close":
            for client in clients:
                try:
                    client.close()
                except grete.ForkedClientError:
                    pass
        del clients[:]
        gc.collect()
        os._exit(0)
    descriptor = os.pidfd_open(child)
    if not select.select([descriptor], [], [], 15.0)[0]:
        os.kill(child, 9)
    os.close(descriptor)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, status
for client in clients:
    client.close()
print("sound")
"""


@pytest.mark.parametrize("how", ["drop", "exit", "close", "leave"])
def test_p44_a_child_lets_go_of_its_parents_clients(tmp_path: Path, how: str) -> None:
    script = tmp_path / "parent.py"
    script.write_text(SCRIPT)
    process = spawn(
        [sys.executable, "-W", "ignore::DeprecationWarning", script, how],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        output, errors = process.communicate(timeout=60.0)
    finally:
        end(process)
    assert (process.returncode, output) == (0, b"sound\n"), errors.decode()
