"""Attacks on the pages, each of which must fail: forged requests, foreign hosts, missing roles, sizes, paths."""

import base64
import ipaddress
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from grete._web import serve
from grete._web.collector import Collector
from grete._web.kafka.commands import CommandSender
from grete._web.kafka.gateway import Gateway
from grete._web.kafka.letters import Replays
from grete._web.security.access import Access, check_password, hash_password, parse_roles, read_users
from grete._web.security.guard import COOKIE, MAX_BODY
from grete._web.server.application import ACTIONS, PAGES, QUERIES, make_application
from grete._web.server.context import Parts
from grete._web.server.rendering import STATIC, TEMPLATES
from grete._web.state.store import Store
from grete.errors import ConfigError
from tests.unit.web.simulated_reports import error, report

POSTS = [*QUERIES, *ACTIONS]


@pytest.fixture(scope="module")
def parts() -> Iterator[Parts]:
    # No broker answers there: what the guard lets through ends with 502.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        gateway = Gateway({"bootstrap.servers": f"127.0.0.1:{closed.getsockname()[1]}"})
        store = Store()
        yield Parts(store, gateway, Collector(store, gateway.settings), Replays(gateway), CommandSender(gateway, ""))
        gateway.close()


def client(parts: Parts, access: Access | None = None, **more: Any) -> TestClient:
    application = make_application(parts, access or Access(), ["testserver"])
    return TestClient(application, raise_server_exceptions=False, follow_redirects=False, **more)


def token_of(browser: TestClient) -> str:
    """Token of a form, and the cookie to it."""
    # Any page has no form without brokers, so the token is that of the guard itself.
    browser.get("/processes")
    guard: Any = browser.app
    session = browser.cookies[COOKIE]
    return str(guard._token(session, "local"))


def basic(name: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.fixture(scope="module")
def users() -> dict[str, tuple[str, str]]:
    roles = {"vera": "viewer", "otto": "operator"}
    return {name: (role, hash_password(f"{name}-secret")) for name, role in roles.items()}


def test_responses_allow_no_script_of_others_and_are_not_kept(parts: Parts) -> None:
    for path in ("/processes", "/api/processes", "/nothing", "/process?id=x"):
        headers = client(parts).get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
        assert headers["referrer-policy"] == "same-origin"


def test_templates_have_no_inline_script_or_style_and_load_nothing_from_elsewhere() -> None:
    for template in TEMPLATES.rglob("*.html"):
        text = template.read_text()
        assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:|\|\s*safe|autoescape", text), template
        assert not re.search(r"<script(?![^>]*\ssrc=\"/static/)", text), template
        assert not re.search(r"(src|href)=\"(https?:)?//", text), template
    for script in [*STATIC.glob("*.js"), *STATIC.glob("*.css")]:
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(|https?://", script.read_text()), (
            script
        )


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    ("headers", "has_token", "status"),
    [
        ({}, False, 403),
        ({"origin": "https://evil.example"}, True, 403),
        ({"origin": "null"}, True, 403),
        ({"sec-fetch-site": "cross-site"}, True, 403),
        ({"sec-fetch-site": "same-site"}, True, 403),
        ({"content-type": "text/plain"}, True, 415),
        ({"origin": "http://testserver", "sec-fetch-site": "same-origin"}, True, 502),
    ],
)
def test_forged_forms_are_refused(
    parts: Parts, path: str, headers: dict[str, str], has_token: bool, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("letters", "gateway", "explorer"):
        monkeypatch.setattr(f"grete._web.kafka.{module}.TIMEOUT", 0.01, raising=False)
    browser = client(parts)
    token = token_of(browser)
    fields = {"csrf": token} if has_token else {}
    sent = browser.post(path.format(topic="orders.dlq"), data=fields | {"key": "k"}, headers=headers)
    if status == 502 and path.endswith(("/replay", "/stop")):
        assert sent.status_code == 303
        for run in parts.replays.runs:
            parts.replays.wait(run, 30.0)
        return
    if status == 502 and path.startswith("/process/"):
        status = 404  # this process is unknown, so that brokers are not asked
    assert sent.status_code == status, sent.text


def test_a_token_of_another_session_or_user_is_no_token(parts: Parts, users: dict[str, tuple[str, str]]) -> None:
    one, other = client(parts), client(parts)
    token = token_of(one)
    token_of(other)
    assert other.post("/letters/x/stop", data={"csrf": token}).status_code == 403
    known = client(parts, Access(users), headers=basic("otto", "otto-secret"))
    assert known.post("/letters/x/stop", data={"csrf": token_of(known)}).status_code == 403, "that of the user local"
    assert one.post("/letters/x/stop", data={"csrf": "é" * 64}).status_code == 403
    cookie = one.get("/processes", headers={"cookie": ""}).headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "[::1", "testserver.evil.example:80"])
def test_foreign_host_names_are_refused(parts: Parts, host: str) -> None:
    assert client(parts).get("/processes", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:8080", "TESTSERVER"])
def test_names_of_this_machine_are_known(parts: Parts, host: str) -> None:
    assert client(parts).get("/processes", headers={"host": host}).status_code == 200


def test_nobody_gets_in_without_the_password(parts: Parts, users: dict[str, tuple[str, str]]) -> None:
    anybody = client(parts, Access(users))
    for headers in (
        {},
        basic("otto", "wrong"),
        basic("nobody", "otto-secret"),
        basic("otto", ""),
        {"authorization": "Basic %%%"},
        {"authorization": "Bearer x"},
        {"authorization": "Basic " + "A" * 5000},
        {"x-forwarded-user": "otto"},
    ):
        for path in ("/processes", "/api/processes", "/static/web.css"):
            assert anybody.get(path, headers=headers).status_code == 401, headers
    assert anybody.get("/processes").headers["www-authenticate"].startswith("Basic ")
    assert anybody.get("/processes", headers=basic("otto", "otto-secret")).status_code == 200
    assert anybody.get("/processes", headers=basic("otto", "otto-secret")).status_code == 200, "from the cache"


def test_a_header_counts_only_from_the_proxy(parts: Parts) -> None:
    def access(network: str) -> Access:
        return Access(header="X-User", proxies=[ipaddress.ip_network(network)], roles=parse_roles(["otto=operator"]))

    near = client(parts, access("10.0.0.0/8"), client=("10.1.2.3", 5000))
    assert near.get("/processes", headers={"x-user": "otto"}).status_code == 200
    assert "operator" in near.get("/processes", headers={"x-user": "otto"}).text
    assert "viewer" in near.get("/processes", headers={"x-user": "vera"}).text
    assert near.get("/processes").status_code == 401
    assert near.get("/processes", headers={"x-user": "<script>"}).status_code == 401
    far = client(parts, access("10.0.0.0/8"), client=("192.0.2.7", 5000))
    assert far.get("/processes", headers={"x-user": "otto"}).status_code == 401


def test_browsers_name_the_origin_of_our_own_forms(parts: Parts) -> None:
    # With "no-referrer" a browser sends `Origin: null` with each form, which is refused as another site's.
    assert client(parts).get("/processes").headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", POSTS)
def test_viewers_change_nothing_and_search_nothing(parts: Parts, users: dict[str, tuple[str, str]], path: str) -> None:
    browser = client(parts, Access(users), headers=basic("vera", "vera-secret"))
    browser.get("/processes")
    guard: Any = browser.app
    token = guard._token(browser.cookies[COOKIE], "vera")
    sent = browser.post(path.format(topic="orders.dlq"), data={"csrf": token, "key": "k"})
    assert sent.status_code == 403
    assert "needs the role operator" in sent.text
    download = browser.get("/topics/orders/0/0/download")
    assert download.status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/static/../serve.py",
        "/static/..%2f..%2fserve.py",
        "/static/%2e%2e/%2e%2e/serve.py",
        "/static//etc/passwd",
        "/topics/..%2f..%2fstatus/records",
        "/errors/..%2f..",
    ],
)
def test_paths_lead_to_no_other_files(parts: Parts, path: str) -> None:
    answer = client(parts).get(path)
    assert answer.status_code in (404, 502)
    assert "import" not in answer.text
    assert "root:" not in answer.text


def test_oversized_and_strange_requests_are_refused(parts: Parts) -> None:
    browser = client(parts)
    token = token_of(browser)
    assert browser.post("/letters/x/plan", data={"csrf": token, "error": "x" * MAX_BODY}).status_code == 413
    many = {f"field{number}": "1" for number in range(100)} | {"csrf": token}
    assert browser.post("/letters/x/plan", data=many).status_code == 400
    assert browser.request("DELETE", "/processes").status_code == 405
    assert browser.request("TRACE", "/processes").status_code == 405
    for query in ("partition=-1", "partition=1e9", "partition=99999999999", "offset=5", "at=yesterday", "partition=٣"):
        assert browser.get(f"/topics/orders/records?{query}").status_code == 400, query
    assert browser.get("/topics/orders/0/0?as=html").status_code in (400, 502)
    assert browser.get("/api/series?range=1y").status_code == 400
    assert browser.post("/topics/orders/search", data={"csrf": token, "key": "k" * 1001}).status_code == 400


def test_one_address_cannot_keep_the_process_busy(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    # A slow machine asks less often than the limit.
    monkeypatch.setattr("grete._web.security.guard.time", SimpleNamespace(monotonic=lambda: 1_000.0))
    browser = client(parts)
    statuses = [browser.get("/api/series").status_code for _ in range(600)]
    assert statuses[0] == 200
    assert 429 in statuses


def test_names_in_reports_and_errors_are_inert(parts: Parts) -> None:
    markup = "<img src=x onerror=alert(1)>\"'><script>alert(1)</script>"
    name = f"{markup}/host-1/7-a"
    store = parts.store
    facts = {"id": "markup", "app": markup, "host": markup, "pid": 1, "grete": markup, "python": markup}
    value = report(
        problems=[[markup, markup]], process=facts, jobs=[[markup, markup, 1, 1, 1]], stacks=[[markup] * 2 + [1]]
    )
    store.add_report(name.encode(), value, 1, 1)
    process = {"id": markup, "app": markup, "host": markup}
    store.add_error(error(process=process, message=markup, traceback=markup, handler=markup, event=markup), (0, 0))
    browser = client(parts)
    for path in ("/", "/processes", "/process?id=markup", "/errors", f"/errors/{store.errors.groups()[0].id}"):
        answer = browser.get(path)
        assert answer.status_code == 200, path
        assert "<img" not in answer.text.replace('<img src="/static', ""), path
        assert "<script>alert" not in answer.text, path
    assert browser.get(f"/process?id={markup}").status_code == 404


def test_others_may_reach_a_port_only_where_they_log_in(users: dict[str, tuple[str, str]]) -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        serve.check_exposure(host, Access())
    for host in ("0.0.0.0", "::", "10.0.0.7", "web.example"):
        with pytest.raises(ConfigError, match="no login would be needed"):
            serve.check_exposure(host, Access())
        serve.check_exposure(host, Access(users))


def test_the_file_of_users_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"# people\n\nvera:viewer:{hash_password('secret-word')}\n")
    assert read_users(path)["vera"][0] == "viewer"
    assert check_password("secret-word", read_users(path)["vera"][1])
    assert not check_password("secret-worD", read_users(path)["vera"][1])
    for text in (
        "vera",
        "vera:root:" + hash_password("x"),
        "vera:viewer:plain",
        "",
        "<b>:viewer:" + hash_password("x"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            read_users(path)
        assert "plain" not in str(caught.value)


def test_every_page_is_json_too(parts: Parts) -> None:
    paths = {getattr(route, "path", "") for route in _routes(client(parts).app)}
    for path in PAGES:
        assert ("/api/dashboard" if path == "/" else f"/api{path}") in paths


def _routes(guard: Any) -> Any:
    return guard._app.routes
