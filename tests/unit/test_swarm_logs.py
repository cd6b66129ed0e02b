"""Log lines say which process of a swarm they are of."""

from __future__ import annotations

import io
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from grete._process.node import Formatter, set_node_name
from grete.instrumentation._logging.default_handler import SWARM_LOG_FORMAT


@pytest.fixture(autouse=True)
def factory() -> Iterator[None]:
    """The test's own way to make records goes with it."""
    before = logging.getLogRecordFactory()
    yield
    set_node_name("-")
    logging.setLogRecordFactory(before)


def written(formatter: logging.Formatter) -> str:
    """What one warning becomes."""
    logger = logging.getLogger("mine")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    try:
        logger.warning("hello")
    finally:
        logger.removeHandler(handler)
    return stream.getvalue()


def test_each_process_has_its_name_in_any_format() -> None:
    for name in ("supervisor", "node-0"):
        set_node_name(name)
        assert written(logging.Formatter("[%(grete_node)s] %(message)s")) == f"[{name}] hello\n"
        assert f"WARNING {name} mine: hello\n" in written(Formatter(SWARM_LOG_FORMAT))


def test_a_factory_of_the_users_own_goes_on() -> None:
    def own(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = logging.LogRecord(*args, **kwargs)
        record.own = "own"
        return record

    logging.setLogRecordFactory(own)
    set_node_name("node-3")
    set_node_name("node-4")
    assert written(logging.Formatter("%(grete_node)s %(own)s")) == "node-4 own\n"


def test_a_factory_that_comes_later_does_not_break_our_format() -> None:
    set_node_name("node-5")

    def later(*args: Any, **kwargs: Any) -> logging.LogRecord:
        return logging.LogRecord(*args, **kwargs)

    logging.setLogRecordFactory(later)
    assert " node-5 mine: hello\n" in written(Formatter(SWARM_LOG_FORMAT))


@pytest.mark.parametrize("lines", [1, 10_000])
def test_a_record_is_one_write_so_that_nodes_do_not_mix_their_lines(lines: int) -> None:
    script = (
        "import logging\nfrom grete._cli.options import set_up_logging\n"
        "from grete.instrumentation._logging.default_handler import SWARM_LOG_FORMAT\n"
        f"set_up_logging('INFO', SWARM_LOG_FORMAT)\nlogging.error('line\\n' * {lines})\n"
    )
    # Each write is a packet here.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.settimeout(60.0)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        process = subprocess.Popen([sys.executable, "-c", script], stderr=theirs.fileno())
        theirs.close()
        packets = []
        while packet := ours.recv(1 << 20):
            packets.append(packet.count(b"\n"))
        assert process.wait(60) == 0
    assert packets == [lines + 1]
