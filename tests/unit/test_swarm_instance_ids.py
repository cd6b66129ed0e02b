"""The names of a swarm's static members: the same at each start, and of one swarm only."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing
from uuid import uuid4

import pytest

from grete._config.static_membership import instance_id
from grete._swarm import instance_ids
from grete.errors import ConfigError

HOLDER = """
import sys
from grete._swarm import instance_ids
held = instance_ids.claim(sys.argv[1])
print(held.prefix, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def app() -> str:
    """An App that no other test, and no other run of this one, has a swarm of."""
    return f"shop-{uuid4().hex[:8]}"


def hold(app: str) -> tuple[subprocess.Popen[str], str]:
    """A supervisor in another process; returns the prefix that it has."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, app], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        stream.close()


def test_it_is_the_same_at_each_start_and_says_whose_it_is(app: str) -> None:
    found = []
    for _ in range(2):
        with closing(instance_ids.claim(app)) as claimed:
            assert claimed.number == 1
            found.append(claimed.for_node(2))
    assert found[0] == found[1]
    assert re.fullmatch(rf"{re.escape(socket.gethostname())}-{app}-[0-9a-f]{{8}}-2", found[0])
    other, prefix = hold(app)
    end(other)
    assert f"{prefix}-2" == found[0], "in another process, too"


def test_two_swarms_of_one_app_have_different_names_and_a_killed_one_leaves_its_own(app: str) -> None:
    first, prefix = hold(app)
    try:
        with closing(instance_ids.claim(app)) as second:
            assert (second.number, second.prefix) == (2, f"{prefix}.2")
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        with closing(instance_ids.claim(app)) as again:
            assert (again.number, again.prefix) == (1, prefix)
    finally:
        end(first)


def test_too_many_are_refused_with_the_cure(app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_ids, "_MAX_SWARMS", 1)
    with closing(instance_ids.claim(app)), pytest.raises(ConfigError, match="static_membership = false"):
        instance_ids.claim(app)


@pytest.mark.parametrize("app", ["ein Laden, groß", "店", "a/b", "x" * 1000, "\udc80"])
def test_any_app_has_a_legal_name_of_its_own(app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "web_1.example" + "w" * 50)
    made = f"{instance_ids.id_prefix(app)}.64-999"
    assert instance_id(made, None) == made
    assert instance_ids.id_prefix(app) != instance_ids.id_prefix(f"{app}!"), "what is no letter of an id still counts"


def test_machines_and_containers_of_one_host_name_differ(app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = instance_ids.id_prefix(app)
    for part, other in (("_boot_id", lambda: "another boot"), ("_network_namespace", lambda: 7)):
        with monkeypatch.context() as patch:
            patch.setattr(instance_ids, part, other)
            assert instance_ids.id_prefix(app) != here
