"""Words of `grete web`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from grete._cli import main
from grete._web.security.access import check_password, read_users


def call(*words: str, text: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(main, ["web", *words], input=text)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--host", "0.0.0.0"], "no login would be needed"),
        (["--host", "10.0.0.7"], "give --users FILE"),
        (["--users", "nothing"], "nothing cannot be read"),
        (["--users", "nothing", "--proxy-header", "X-User"], "--users and --proxy-header are ways to log in"),
        (["--oidc", "https://idp", "--proxy-header", "X-User"], "--proxy-header and --oidc are ways to log in"),
        (["--oidc", "https://idp"], "--oidc needs --public-url"),
        (["--oidc", "https://idp", "--public-url", "https://web/path"], "without a path"),
        (["--oidc", "idp", "--public-url", "https://web"], 'like https://id.example.com, not "idp"'),
        (["--oidc", "https://idp", "--public-url", "https://web"], "--oidc needs --oidc-client"),
        (["--oidc", "https://idp", "--public-url", "https://web", "--oidc-client", "x"], "--oidc needs --role"),
        (
            [
                "--oidc",
                "https://idp",
                "--public-url",
                "https://web",
                "--oidc-client",
                "x",
                "--role",
                "*=viewer",
                "--oidc-secret-file",
                "/nothing",
            ],
            "/nothing cannot be read",
        ),
        (["--oidc-client", "x"], "--oidc-client needs --oidc: without a login each user is an admin"),
        (["--public-url", "https://web"], "--public-url needs --oidc"),
        (["--role", "ann=viewer"], "--role needs --oidc or --proxy-header"),
        (["--mask", "orders"], "a mask is TOPIC:key"),
        (["--proxy-header", "X-User", "--trusted-proxy", "far away"], "--trusted-proxy"),
        (["--proxy-header", "X-User", "--role", "ann=root"], "a role is NAME="),
        (["--port", "1", "setup"], "options of setup follow its name"),
        (["--port", "66000"], "66000"),
    ],
)
def test_what_cannot_be_served_is_refused(words: list[str], text: str) -> None:
    status, output = call(*words)
    assert status != 0
    assert text in " ".join(output.split())


def test_a_password_becomes_a_line_of_the_file(tmp_path: Path) -> None:
    status, line = call("password", "ann", "--role", "operator", text="correct horse\n")
    assert status == 0
    assert "correct" not in line
    path = tmp_path / "users"
    path.write_text(line)
    role, stored = read_users(path)["ann"]
    assert role == "operator"
    assert check_password("correct horse", stored)
    assert call("password", "ann", text="short\n")[0] == 2
