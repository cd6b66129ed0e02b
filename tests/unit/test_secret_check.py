"""The check of secrets fails tests that show one, wherever they show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import secret_check
from tests.kafka.secrets import MARK, MARKS, forms, secret

pytest_plugins = ["pytester"]

# Tests that show a secret, each in another place. The secret is joined, so that this file shows none itself.
SHOWING = {
    "output": "print(SECRET)",
    "output_that_is_read": "print(SECRET); capsys.readouterr()",
    "bytes": "print(SECRET.encode().hex())",
    "base64": "print(base64.b64encode(b'user:' + SECRET.encode()))",
    "log": "logging.getLogger('grete.x').warning('login of %s', SECRET)",
    "field_of_a_record": "logging.getLogger('grete.x').warning('login', extra={'user': SECRET})",
    "traceback_in_the_log": """
    try:
        raise ValueError(SECRET)
    except ValueError:
        logging.getLogger('grete.x').exception('login')""",
    "error_that_is_made": "grete.ConfigError('bad ' + SECRET, setting='x')",
    "error_that_is_caught": "with pytest.raises(ValueError): raise ValueError(SECRET)",
    "context_of_an_error": """
    with pytest.raises(KeyError):
        try:
            raise ValueError(SECRET)
        except ValueError:
            raise KeyError('x')""",
    "attribute_of_an_error": """
    error = ValueError('bad')
    error.value = SECRET
    with pytest.raises(ValueError): raise error""",
    "process": "subprocess.run([sys.executable, '-c', f'print({SECRET!r})'], capture_output=True)",
    "command": "click.testing.CliRunner().invoke(click.command()(lambda: click.echo(SECRET)))",
    "file": "(tmp_path / 'node.log').write_text(SECRET)",
}
HIDING = {
    "hidden": "print('********')",
    "given_file": "(tmp_path / 'grete.toml').write_text(SECRET)",
    "allowed": "print(SECRET)",
}


@pytest.mark.shows_secrets("its output has that of the tests within")
def test_each_way_to_show_a_secret_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n    shows_secrets\n")
    pytester.makeconftest(
        "from tests.secret_check import SecretCheck\n"
        "def pytest_configure(config): config.pluginmanager.register(SecretCheck())\n"
    )
    lines = ["import base64, logging, subprocess, sys, click, click.testing, pytest, grete"]
    lines.append("from tests.kafka.secrets import secret")
    lines.append("SECRET = secret('planted')")
    for name, body in {**SHOWING, **HIDING}.items():
        if name == "allowed":
            lines.append("@pytest.mark.shows_secrets('a test of the mark')")
        lines.append(f"def test_{name}(capsys, tmp_path):\n    {body.strip()}")
    pytester.makepyfile("\n".join(lines))
    pytester.syspathinsert(Path(__file__).parents[2])
    run = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-q")
    assert run.reprec is not None  # type: ignore[attr-defined]
    reports = run.reprec.getreports("pytest_runtest_logreport")  # type: ignore[attr-defined]
    failed = [report for report in reports if report.failed]
    assert sorted(report.nodeid.partition("::test_")[2] for report in failed) == sorted(SHOWING)
    for report in failed:
        assert "this test shows a secret:" in report.longreprtext
        assert MARK not in report.longreprtext


def test_the_forms_of_a_mark_are_found_and_ordinary_text_has_none() -> None:
    for mark in MARKS:
        for before in ("", "a", "ab", "abc"):
            assert all(form for form in forms(mark))
            assert secret_check.shown_in(f"user={before}{mark}x") is not None
    assert secret_check.shown_in(secret().encode()) is not None
    root = Path(__file__).parents[2]
    for page in [*root.glob("*.md"), *root.glob("docs/*.md")]:
        assert secret_check.shown_in(page.read_text()) is None, page
