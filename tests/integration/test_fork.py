"""A client belongs to the process that made it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.kafka import KafkaCluster, fill
from tests.kafka.jars import ROOT

pytestmark = pytest.mark.kafka

SCRIPT = """
import gc, json, os, sys
import grete
from tests.integration.topic_reader import offsets, read_to, take
servers, topic = sys.argv[1:]

parent = grete.client.Consumer({"bootstrap.servers": servers})
parent.assign([(topic, 0, 0)])
rows = {(topic, 0): []}
while len(rows[topic, 0]) < 100:
    take(parent, rows, 1.0)

read_end, write_end = os.pipe()
child = os.fork()
if child == 0:
    answer = {}
    for name, call in {
        "poll": lambda: parent.poll(timeout=1.0),
        "assign": lambda: parent.assign([(topic, 0, 0)]),
        "commit": lambda: parent.commit(),
    }.items():
        try:
            call()
            answer[name] = "no error"
        except grete.ForkedClientError as error:
            answer[name] = "forked: " + str(error)
        except BaseException as error:
            answer[name] = repr(error)
    # Dropped without touching the parent's sockets.
    del parent
    gc.collect()
    # A client of its own works.
    own = grete.client.Consumer({"bootstrap.servers": servers})
    own.assign([(topic, 0, 0)])
    answer["own"] = offsets(read_to(own, {(topic, 0): 1000})[topic, 0]) == list(range(1000))
    own.close()
    os.write(write_end, json.dumps(answer).encode())
    os._exit(0)
os.close(write_end)
with open(read_end) as pipe:
    answer = json.loads(pipe.read())
answer["status"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
while len(rows[topic, 0]) < 1000:
    take(parent, rows, 1.0)
answer["parent"] = offsets(rows[topic, 0]) == list(range(1000))
parent.close()
print(json.dumps(answer))
"""


def test_a_child_gets_an_error_and_the_parent_goes_on(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 1000)
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, kafka.bootstrap_servers, topic]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    for call in ("poll", "assign", "commit"):
        assert answer[call].startswith("forked: "), answer
        assert "fork" in answer[call]
    assert answer["own"] is True
    assert answer["status"] == 0
    assert answer["parent"] is True
