"""What a program sees that has not set up logging, and that nothing is added where it has."""

import subprocess
import sys

import pytest

APP = """
import logging, logging.config, sys, threading
import grete
app = grete.App("billing", kafka={"bootstrap.servers": "127.0.0.1:1"}, shutdown_timeout="2s")
@app.consumer("orders")
def orders(messages: grete.Messages) -> None: ...
"""
RUN = """
threading.Timer(0.0, app.stop).start()
with app.running():
    pass
"""


def stderr_of(before: str, after: str = "") -> str:
    """What an App logs that starts and stops."""
    done = subprocess.run(
        [sys.executable, "-c", APP + before + RUN + after], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_script_without_logging_shows_that_it_runs() -> None:
    text = stderr_of("")
    assert ' INFO    grete: App "billing" runs: orders; group billing; 5 workers\n' in text
    assert text.count('App "billing" has stopped') == 1


def test_one_worker_is_one() -> None:
    scaled = "threading.Timer(0.0, lambda: (app.scale(1), app.stop())).start()\nwith app.running():\n    pass\n"
    text = stderr_of("app.override({'workers': 1})\n", scaled)
    assert "group billing; 1 worker\n" in text


def test_an_app_that_runs_twice_writes_each_line_once() -> None:
    assert stderr_of("", RUN).count('App "billing" has stopped') == 2


def test_log_level_counts() -> None:
    assert "runs" not in stderr_of("app.override({'log_level': 'warning'})\n")


def test_uvicorns_configuration_leaves_the_root_logger_alone_and_the_app_is_heard() -> None:
    config = """
logging.config.dictConfig({
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"default": {"class": "logging.StreamHandler"}},
    "loggers": {"uvicorn": {"handlers": ["default"], "level": "INFO", "propagate": False}},
})
"""
    assert 'App "billing" runs' in stderr_of(config)


@pytest.mark.parametrize(
    ("configuration", "wanted"),
    [
        ('logging.basicConfig(level="INFO", format="mine %(message)s")', 'mine App "billing" runs'),
        ('logging.basicConfig(format="mine %(message)s")', ""),
        ('logging.getLogger("grete").addHandler(logging.NullHandler())', ""),
        ('logging.getLogger("grete").propagate = False', ""),
        ('logging.getLogger().setLevel("ERROR")', ""),
        ('logging.getLogger("grete").setLevel("ERROR")', ""),
    ],
)
def test_what_the_program_has_configured_counts(configuration: str, wanted: str) -> None:
    text = stderr_of(configuration + "\n")
    assert text.count('App "billing" runs') == (1 if wanted else 0)
    assert wanted in text
    assert " INFO " not in text


def test_a_configuration_that_comes_later_takes_over() -> None:
    text = stderr_of("", 'logging.basicConfig(format="mine %(message)s")\nlogging.getLogger("grete").info("after")\n')
    assert text.count("after") == 1
    assert "mine after" in text


def test_the_import_of_grete_adds_no_handler() -> None:
    code = "import logging, grete, grete.client; grete.App('a'); print(logging.getLogger('grete').handlers)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
