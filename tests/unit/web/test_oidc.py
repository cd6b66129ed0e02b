"""Logins by OpenID Connect, at a provider that is a real server; and what is none."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from joserfc.jwk import RSAKey
from starlette.testclient import TestClient

from grete._web.security import oidc
from grete._web.security.access import Access, User
from grete._web.security.guard import COOKIE
from grete._web.security.oidc import OidcLogin, OidcSettings
from grete._web.server.application import make_application
from grete._web.server.context import Parts
from tests.unit.web.provider import CLIENT, Provider, path_of, running_provider
from tests.unit.web.test_guard import parts

__all__ = ["parts"]  # a fixture


@pytest.fixture(scope="module")
def one_provider() -> Iterator[Provider]:
    with running_provider() as found:
        yield found


@pytest.fixture
def provider(one_provider: Provider) -> Provider:
    one_provider.claims, one_provider.change = {"sub": "1", "preferred_username": "ann"}, {}
    one_provider.key, one_provider.says, one_provider.algorithm = one_provider.own_key, {}, "RS256"
    one_provider.secrets.clear()
    return one_provider


def browser(parts: Parts, provider: Provider, public: str = "http://testserver", **more: Any) -> TestClient:
    more.setdefault("roles", {"ann": "operator"})
    settings = OidcSettings(provider.url, CLIENT, "client-secret", public, **more)
    application = make_application(parts, Access(login=OidcLogin(settings)), ["testserver"])
    return TestClient(application, public, raise_server_exceptions=False, follow_redirects=False)


def at_provider(location: str) -> str:
    """The path to which the provider leads back."""
    answer = httpx.get(location)
    assert answer.status_code == 302
    return path_of(answer.headers["location"])


def log_in(client: TestClient, path: str = "/login") -> Any:
    begun = client.get(path)
    assert begun.status_code == 302, begun.text
    return client.get(at_provider(begun.headers["location"]))


def login_cookie(client: TestClient) -> tuple[str, str]:
    ((name, value),) = [(name, value) for name, value in client.cookies.items() if name != COOKIE]
    return name, value


def test_a_user_logs_in_and_comes_back_to_the_page(parts: Parts, provider: Provider) -> None:
    client = browser(parts, provider)
    asked = client.get("/processes?app=shop&x=%2F")
    assert (asked.status_code, asked.headers["location"]) == (303, "/login?next=%2Fprocesses%3Fapp%3Dshop%26x%3D%252F")
    before = client.cookies[COOKIE]
    ended = log_in(client, asked.headers["location"])
    assert ended.status_code == 200
    assert 'content="0;url=/processes?app=shop&amp;x=%2F"' in ended.text
    assert client.cookies[COOKIE] != before, "the session has a new id"
    page = client.get("/processes")
    assert page.status_code == 200
    assert "ann · operator" in page.text
    assert 'action="/logout"' in page.text
    assert provider.secrets == ["Basic " + base64.b64encode(b"grete-web:client-secret").decode()]
    assert client.get("/api/processes").status_code == 200
    assert client.post("/logout").status_code == 415
    assert client.post("/logout", data={"csrf": "wrong"}).status_code == 403
    token = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert token is not None
    assert client.get("/processes").status_code == 200
    assert client.post("/logout", data={"csrf": token[1]}).status_code == 200
    assert client.get("/processes").status_code == 303
    assert client.get("/processes", headers={"cookie": f"{COOKIE}={before}"}).status_code == 303


def test_cookies_are_strict_and_secure(parts: Parts, provider: Provider) -> None:
    client = browser(parts, provider, "https://testserver")
    begun = client.get("/login")
    ended = client.get(at_provider(begun.headers["location"]))
    cookies = [begun.headers["set-cookie"], *ended.headers.get_list("set-cookie")]
    assert [re.sub("(grete_)?(login|grete_web)[_0-9a-f]*=[^;]*;", r"\2;", cookie, count=1) for cookie in cookies] == [
        "login; Path=/login; Max-Age=600; HttpOnly; SameSite=Lax; Secure",
        "login; Path=/login; Max-Age=0; HttpOnly; SameSite=Lax; Secure",
        "grete_web; Path=/; HttpOnly; SameSite=Strict; Secure",
    ]
    assert "script-src 'self'" in begun.headers["content-security-policy"]
    assert begun.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/api/processes", "/static/web.css"])
def test_what_is_no_page_is_refused_without_a_login(parts: Parts, provider: Provider, path: str) -> None:
    client = browser(parts, provider)
    assert client.get(path).status_code == 401
    assert client.get("/processes", headers={"sec-fetch-mode": "cors"}).status_code == 401
    assert client.post("/letters/x/replay").status_code == 401
    assert client.post("/login").status_code == 401


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "//[",
        "/login",
        "/logout?x",
        "https://evil.example/x",
        "/\\evil.example",
        "javascript:alert(1)",
        "/\n",
        "",
    ],
)
def test_a_login_leads_to_no_other_site(parts: Parts, provider: Provider, target: str) -> None:
    client = browser(parts, provider)
    begun = client.get("/login", params={"next": target})
    ended = client.get(at_provider(begun.headers["location"]))
    assert 'content="0;url=/"' in ended.text


def test_a_login_fits_into_a_cookie(parts: Parts, provider: Provider) -> None:
    for path in ("/" + "x" * 990, "/" + "x" * 5000, "/" + "\u4e00" * 900):
        begun = browser(parts, provider).get("/login", params={"next": path})
        assert max(len(cookie) for cookie in begun.headers.get_list("set-cookie")) < 4096


def test_a_target_is_no_markup(parts: Parts, provider: Provider) -> None:
    client = browser(parts, provider)
    begun = client.get("/login", params={"next": '/x"><script>alert(1)</script>'})
    assert "<script>" not in client.get(at_provider(begun.headers["location"])).text


def test_a_login_ends_once_and_in_the_browser_that_began_it(parts: Parts, provider: Provider) -> None:
    client = browser(parts, provider)
    back = at_provider(client.get("/login").headers["location"])
    other = TestClient(client.app, raise_server_exceptions=False, follow_redirects=False)
    assert other.get(back).status_code == 400, "without the cookie of the login"
    other.get("/login")
    assert other.get(back).status_code == 400, "the state is that of another login"
    assert other.get("/processes").status_code == 303
    name, cookie = login_cookie(client)
    assert client.get(back).status_code == 200
    assert client.get(back).status_code == 400
    assert client.get(back, headers={"cookie": f"{name}={cookie}"}).status_code == 403, "the code is used up"
    assert client.get("/login/callback").status_code == 400
    assert client.get("/login/callback?error=access_denied").status_code == 400


@pytest.mark.parametrize(
    "change",
    [{"aud": "another"}, {"iss": "https://evil.example"}, {"nonce": "old"}, {"exp": 1}, {"sub": None}, {"sub": 7}],
)
def test_a_token_for_another_purpose_is_refused(parts: Parts, provider: Provider, change: dict[str, Any]) -> None:
    provider.change = change
    client = browser(parts, provider, roles={"*": "admin"})
    assert log_in(client).status_code == 502
    assert client.get("/processes").status_code == 303


def test_a_token_with_another_signature_is_refused(parts: Parts, provider: Provider) -> None:
    provider.key = RSAKey.generate_key(2048, {"kid": "one"})
    client = browser(parts, provider)
    assert log_in(client).status_code == 502
    assert client.get("/processes").status_code == 303


def test_a_user_without_a_role_stays_outside(parts: Parts, provider: Provider) -> None:
    client = browser(parts, provider, roles={"bob": "viewer"})
    ended = log_in(client)
    assert (ended.status_code, "--role NAME=viewer" in ended.text) == (403, True)
    assert client.get("/processes").status_code == 303


def test_a_provider_that_is_away_is_named_in_the_log(parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    with running_provider() as provider:
        client = browser(parts, provider)
    answer = client.get("/login")
    assert (answer.status_code, "the log of grete web says why" in answer.text) == (502, True)
    assert f"a login at {provider.url} failed: ConnectError" in caplog.text


def test_cookies_that_are_altered_or_old_are_refused(
    parts: Parts, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = browser(parts, provider)
    back = at_provider(client.get("/login").headers["location"])
    name, cookie = login_cookie(client)
    text, _, signature = cookie.rpartition(".")
    other = json.dumps({**json.loads(base64.urlsafe_b64decode(text)), "after": "//evil.example"})
    forged = base64.urlsafe_b64encode(other.encode()).decode()
    for wrong in (
        "",
        ".",
        "x",
        f"{forged}.{signature}",
        f"{text}.",
        f"{text}.{signature[:-1]}\u00e9".encode().decode("latin-1"),
    ):
        answer = TestClient(client.app, follow_redirects=False).get(
            back, headers={b"cookie": f"{name}={wrong}".encode("latin-1")}
        )
        assert answer.status_code == 400, wrong
    monkeypatch.setattr(oidc, "_LOGIN_SECONDS", 0)
    assert client.get(back).status_code == 400


@pytest.mark.parametrize(
    "wrong",
    [{"issuer": "http://evil.example"}, {"issuer": None}, {"token_endpoint": None}, {"jwks_uri": 7}],
)
def test_what_a_provider_says_of_itself_is_checked_each_time(
    parts: Parts, provider: Provider, caplog: pytest.LogCaptureFixture, wrong: dict[str, Any]
) -> None:
    client = browser(parts, provider)
    provider.says = wrong
    assert client.get("/login").status_code == 502
    assert "the provider" in caplog.text
    provider.says = {}
    assert log_in(client).status_code == 200, "the wrong answer was not kept"


def test_a_token_without_a_signature_is_refused_although_the_provider_names_it(
    parts: Parts, provider: Provider
) -> None:
    provider.says, provider.algorithm = {"id_token_signing_alg_values_supported": ["none", "HS256"]}, "none"
    assert log_in(browser(parts, provider)).status_code == 502


def test_logins_in_two_tabs_end_both(parts: Parts, provider: Provider) -> None:
    client = browser(parts, provider)
    tabs = [at_provider(client.get("/login").headers["location"]) for _ in range(2)]
    assert [client.get(back).status_code for back in tabs] == [200, 200]


def test_a_provider_that_refuses_is_quoted(parts: Parts, provider: Provider) -> None:
    client = browser(parts, provider)
    back = at_provider(client.get("/login").headers["location"])
    state = back.partition("state=")[2]
    answer = client.get(f"/login/callback?error=access_denied&state={state}")
    assert (answer.status_code, "access_denied" in answer.text) == (403, True)


def test_a_link_of_another_site_ends_no_session(parts: Parts, provider: Provider) -> None:
    client = browser(parts, provider)
    assert log_in(client).status_code == 200
    # A browser sends no strict cookie with it.
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    answer = TestClient(client.app, follow_redirects=False).get("/processes?app=x", headers=foreign)
    assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
    assert 'content="0;url=/processes?app=x"' in answer.text
    for path in ("/login", "/login/callback?error=x&state=y"):
        cookies = (
            TestClient(client.app, follow_redirects=False).get(path, headers=foreign).headers.get_list("set-cookie")
        )
        assert not [cookie for cookie in cookies if cookie.startswith(COOKIE)], path
    assert client.get("/processes").status_code == 200


def test_a_session_ends(parts: Parts, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "SESSION_SECONDS", 0.0)
    client = browser(parts, provider)
    assert log_in(client).status_code == 200
    assert client.get("/processes").status_code == 303


def test_sessions_are_bounded(parts: Parts, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "_MOST_SESSIONS", 2)
    settings = OidcSettings(provider.url, CLIENT, "", "http://testserver", roles={"*": "viewer"})
    login = OidcLogin(settings)
    application = make_application(parts, Access(login=login), ["testserver"])
    clients = [TestClient(application, raise_server_exceptions=False, follow_redirects=False) for _ in range(5)]
    assert [log_in(client).status_code for client in clients] == [200] * 5
    assert len(login._sessions) == 2
    assert [client.get("/processes").status_code for client in clients] == [303, 303, 303, 200, 200]


@pytest.mark.parametrize(
    ("claims", "more", "expected"),
    [
        ({"preferred_username": "ann"}, {}, User("ann", "operator", may_log_out=True)),
        ({"groups": ["ops", "all"]}, {"role_claim": "groups"}, User("7", "admin", may_log_out=True)),
        ({"groups": "ops"}, {"role_claim": "groups"}, User("7", "admin", may_log_out=True)),
        ({"groups": ["ops"]}, {}, None),
        ({"groups": [{"ops": 1}, 3]}, {"role_claim": "groups"}, None),
        (
            {"preferred_username": "ann", "groups": ["ops"]},
            {"role_claim": "groups"},
            User("ann", "admin", may_log_out=True),
        ),
        ({"preferred_username": ["ann"]}, {}, None),
        ({"preferred_username": "ann\n"}, {}, None),
        ({"email": "ann", "email_verified": True}, {"name_claim": "email"}, User("ann", "operator", may_log_out=True)),
        ({"email": "ann", "email_verified": False}, {"name_claim": "email"}, None),
        ({"preferred_username": "*"}, {}, None),
        ({"preferred_username": "ops", "groups": []}, {"role_claim": "groups"}, None),
        ({"preferred_username": "group:ops"}, {"role_claim": "groups"}, None),
        ({"sub": "group:ops"}, {}, None),
        ({"email": "boss@x"}, {"name_claim": "email"}, None),
        ({"email": "boss@x", "email_verified": "false"}, {"name_claim": "email"}, None),
        (
            {"realm_access": {"roles": ["ops"]}},
            {"role_claim": "realm_access.roles"},
            User("7", "admin", may_log_out=True),
        ),
        ({"https://x/roles": ["ops"]}, {"role_claim": "https://x/roles"}, User("7", "admin", may_log_out=True)),
        ({"realm_access": ["ops"]}, {"role_claim": "realm_access.roles"}, None),
    ],
)
def test_roles_follow_names_and_groups(claims: dict[str, Any], more: dict[str, Any], expected: User | None) -> None:
    settings = OidcSettings("", "", "", "", roles={"ann": "operator", "group:ops": "admin", "boss@x": "admin"}, **more)
    assert settings.user({"sub": "7", **claims}) == expected
