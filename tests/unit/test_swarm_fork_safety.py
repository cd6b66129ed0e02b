"""What must not be there before a fork, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grete._swarm.preflight import native_libraries

CHECK = """
import os
import grete
from grete._swarm.preflight import fork_safety
try:
    fork_safety.check_forkable()
except grete.NotForkableError as error:
    print(error, flush=True)
else:
    print("forkable", flush=True)
os._exit(0)  # whatever is open
"""


def checked(tmp_path: Path, source: str, **environment: str) -> str:
    """What the check says after the module `shop` has been imported."""
    (tmp_path / "shop.py").write_text(source)
    env = {**os.environ, **environment}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tmp_path), env.get("PYTHONPATH")]))
    script = f"import logging; logging.basicConfig(format='%(levelname)s %(message)s')\nimport shop\n{CHECK}"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout + done.stderr


def test_a_process_without_threads_can_be_forked(tmp_path: Path) -> None:
    closed = 'import grete\nwith grete.client.Admin({"bootstrap.servers": "127.0.0.1:1"}): pass\n'
    assert checked(tmp_path, closed) == "forkable\n"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            (
                "import threading\ndef watch():\n    threading.Event().wait()\n"
                "threading.Thread(target=watch, name='watcher', daemon=True).start()\n"
            ),
            ['thread "watcher" (watch, shop.py:2) runs', "no thread survives a fork"],
        ),
        (
            (
                "import threading\nclass Watcher(threading.Thread):\n"
                "    def run(self):\n        threading.Event().wait()\n"
                "Watcher(name='own', daemon=True).start()\n"
            ),
            ['thread "own" (Watcher.run, shop.py:3) runs'],
        ),
        (
            (
                "import functools, threading\ndef watch(event):\n    event.wait()\n"
                "threading.Thread(target=functools.partial(watch, threading.Event()), name='p', daemon=True).start()\n"
            ),
            ['thread "p" (watch, shop.py:2) runs'],
        ),
        (
            "from concurrent import futures\npool = futures.ThreadPoolExecutor()\npool.submit(int).result()\n",
            ['thread "ThreadPoolExecutor-0_0" (_worker, '],
        ),
        (
            (
                "import _thread, threading\nbegun = threading.Event()\ndef watch():\n    begun.set()\n"
                "    threading.Event().wait()\n_thread.start_new_thread(watch, ())\nbegun.wait()\n"
            ),
            ["a thread of _thread.start_new_thread runs, just now at shop.py:"],
        ),
        (
            'import grete\nmake = grete.client.Producer\nproducer = make({"bootstrap.servers": "127.0.0.1:1"})\n',
            ["grete.client.Producer is open, made at shop.py:3", "`initialize`", "or close it"],
        ),
        (
            (
                'import grete\nreader = grete.client.Consumer({"bootstrap.servers": "127.0.0.1:1"})\n\n'
                'admin = grete.client.Admin({"bootstrap.servers": "127.0.0.1:1"})\n'
            ),
            ["- grete.client.Admin is open, made at shop.py:4", "- grete.client.Consumer is open, made at shop.py:2"],
        ),
        (
            (
                'import grete\napp = grete.App("guest", kafka={"bootstrap.servers": "127.0.0.1:1"})\n'
                '@app.consumer("x")\ndef x(messages): pass\napp.start()\n'
            ),
            ['App "guest" is open, made at shop.py:5', "stop it before", 'thread "grete-worker-1" ('],
        ),
        (
            'import confluent_kafka\nproducer = confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1"})\n',
            ["a confluent-kafka client is open: shop.producer is a Producer (", "threads, like 'rdk:"],
        ),
    ],
    ids=["thread", "subclass", "partial", "executor", "raw", "producer", "two", "app", "confluent"],
)
def test_what_does_not_survive_a_fork_is_named_with_its_place(tmp_path: Path, source: str, says: list[str]) -> None:
    output = checked(tmp_path, source)
    assert "forkable" not in output
    for text in says:
        assert text in output


def test_native_threads_are_a_warning_with_the_library_and_its_variable(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("with one CPU OpenBLAS starts no thread")
    output = checked(tmp_path, "import numpy\n", OPENBLAS_NUM_THREADS="2")
    assert "forkable" in output
    assert "WARNING a native thread runs before the fork ('python" in output
    assert "OpenBLAS (numpy.libs/libscipy_openblas" in output
    assert "set OPENBLAS_NUM_THREADS=1 in the environment before the start" in output
    assert checked(tmp_path, "import numpy\n", OPENBLAS_NUM_THREADS="1") == "forkable\n"


def test_another_thread_than_the_main_one_does_not_fork(tmp_path: Path) -> None:
    source = (
        "import threading\nfrom grete._swarm.preflight import fork_safety\n"
        "def check():\n    try:\n        fork_safety.check_forkable()\n"
        "    except Exception as error:\n        print(error)\n"
        "one = threading.Thread(target=check)\none.start()\none.join()\n"
    )
    assert "a swarm is started from the main thread" in checked(tmp_path, source)


MAPS = """\
7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libgomp.so.1
7f01-7f02 r-xp 00000000 08:01 2 /venv/polars/_polars_runtime.abi3.so
7f02-7f03 rw-p 00000000 00:00 0
7f03-7f04 rw-p 00000000 00:00 0 [heap]
7f04-7f05 r-xp 00000000 08:01 3 /opt/open blas/openblas notes.txt
"""


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["python"], ["OpenMP"]),
        (["polars-0", "tokio-rt-worker"], ["polars"]),
        (["rayon-1", "python"], ["a Rust library with rayon", "OpenMP"]),
        (["pt_autograd_0"], ["OpenMP"]),  # PyTorch is not mapped
        ([], []),
    ],
)
def test_libraries_are_known_by_their_threads_and_files(names: list[str], found: list[str]) -> None:
    assert [library.name for library in native_libraries.guess_owners(names, MAPS)] == found
