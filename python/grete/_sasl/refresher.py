"""Thread that keeps a bearer token fresh, for all clients of this process that have the same source.

The source is called on a thread of its own, since it may hang: a call that has not ended after 30 s is named in the
log. A new token is fetched when 80 % of the life of the last one are over, whether or not a thread polls. The thread
ends a few seconds after the last client.
"""

import logging
import os
import re
import threading
import time
from typing import Any

from grete import _native
from grete._sasl import endpoint, sources, token

logger = logging.getLogger("grete.client")

_RENEW_AFTER = 0.8
# Seconds before the end of a short token in which the next one is fetched, but after half of its life. A session ends
# with its token, and Kafka's brokers refuse two logins within a second: a session of less than a second would make
# requests wait.
_LEAST_LEFT = 1.5
_BACKOFF = 1.0
_MAX_BACKOFF = 30.0
# Seconds after which a call of the source is reported as hanging.
_HANGS_AFTER = 30.0
# Characters of an error's text in the log.
_MAX_TEXT = 500
# Consecutive failures after which a client that has never logged in ends: the third call comes 3 s after the first. A
# failure that passes by itself, such as an endpoint that is down, does not count.
_LASTS_AFTER = 3
# Seconds between two looks whether a client is left.
_CHECK_INTERVAL = 2.0

# JSON web token, whole or cut, in the text of an error: its first part is the JSON object `{"...`.
_TOKEN = re.compile(r"eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?")

_refreshers: "dict[object, _Refresher]" = {}
_lock = threading.Lock()


def tokens_of(fields: dict[str, Any]) -> _native.TokenStore:
    """Returns the place of the tokens of this source, and starts to fetch them. Raises ConfigError."""
    # A secret is compared as it is: its text would stay in the memory of Python.
    key = (
        os.getpid(),
        *((name, one if isinstance(one, _native.ClientSecret) else str(one)) for name, one in sorted(fields.items())),
    )
    name, fetch = sources.source_of(fields)
    with _lock:
        refresher = _refreshers.get(key)
        if refresher is None or not refresher.claim():
            refresher = _Refresher(key, name, fetch, tuple(fields["extensions"]))
            refresher.start()  # before it is known to others: the system may be out of threads
            _refreshers[key] = refresher
        return refresher.store


def _in_child() -> None:
    """Forgets the parent's threads and its lock, which another thread may have held at the fork."""
    global _lock
    _lock = threading.Lock()
    _refreshers.clear()


os.register_at_fork(after_in_child=_in_child)


def _text_of(error: BaseException) -> str:
    """Returns the text of a source's error in one line that can be encoded; a source may raise anything."""
    try:
        text = str(error)
    except Exception as failure:
        text = f"<its text cannot be read: {type(failure).__name__}>"
    line = _TOKEN.sub("********", " ".join(text.split())[:_MAX_TEXT])
    return _native.one_line(line.encode("utf-8", "backslashreplace").decode())[:_MAX_TEXT]


def _backoff(failures: int) -> float:
    return float(min(_MAX_BACKOFF, _BACKOFF * 2 ** min(failures - 1, 10)))


class _Refresher:
    """One source and its token."""

    def __init__(self, key: object, name: str, fetch: sources.Fetch, extensions: tuple[tuple[str, str], ...]) -> None:
        self.store = _native.TokenStore()
        self._key = key
        self._name = name
        self._fetch = fetch
        self._extensions = extensions
        self._claimed_at = time.monotonic()
        self._expires_at: float | None = None
        self._failures = 0
        self._lasts = False  # the source has failed _LASTS_AFTER times in a row, or hangs
        self._refusals = 0  # tokens in a row that a broker has refused
        self._fetched_at = 0.0
        self._asked = threading.Event()  # never set: gives waits a deadline

    def start(self) -> None:
        threading.Thread(target=self._run, name="grete-tokens", daemon=True).start()

    def claim(self) -> bool:
        """Keeps the thread for a new client; False: the thread has ended. The caller has the lock."""
        self._claimed_at = time.monotonic()
        return _refreshers.get(self._key) is self

    def _run(self) -> None:
        while True:
            wait = self._refresh()
            if wait is None or not self._wait(wait):
                return
            self._check_refusal()

    def _check_refusal(self) -> None:
        """Counts a token that a broker has refused. The source is asked for another one before the time."""
        if not self.store.refused():
            self._refusals = 0
            return
        self._refusals += 1
        level = logging.ERROR if self._refusals == 1 else logging.DEBUG
        logger.log(level, "a broker has refused the token of %s; the source is asked for another one", self._name)

    def _asks_early(self) -> bool:
        """Returns whether the source may have a better token than the present one, which a broker has refused."""
        return self.store.refused() and time.monotonic() - self._fetched_at >= _backoff(self._refusals + 1)

    def _wait(self, seconds: float) -> bool:
        """Waits; False: no client is left, so the thread ends."""
        end = time.monotonic() + seconds
        while True:
            with _lock:
                is_new = time.monotonic() - self._claimed_at < _CHECK_INTERVAL
                if not is_new and self.store.users() == 0:
                    _refreshers.pop(self._key, None)
                    return False
            left = end - time.monotonic()
            if left <= 0 or self._asks_early():
                return True
            self._check_expiry("no new one came")
            self._asked.wait(min(left, _CHECK_INTERVAL))

    def _refresh(self) -> float | None:
        """Fetches a token. Returns the seconds until the next one; None: no client is left."""
        outcome: list[object] = []
        done = threading.Event()

        def call() -> None:
            try:
                outcome.append(token.from_result(self._fetch()))
            except BaseException as error:
                outcome.append(error)
            finally:
                done.set()

        try:
            threading.Thread(target=call, name="grete-token-source", daemon=True).start()
        except RuntimeError as error:  # the system is out of threads
            outcome.append(error)
            done.set()
        started = time.monotonic()
        reported = False
        while not done.wait(_CHECK_INTERVAL):
            waited = time.monotonic() - started
            if waited >= _HANGS_AFTER and not reported:
                reported = self._lasts = True
                self._fail(f"has not answered for {waited:.0f} s", passes=False)
            self._check_expiry("its source does not answer")
            if not self._wait(0.0):
                return None
        result = outcome[0]
        if isinstance(result, token.Token):
            try:
                extensions = [*result.extensions] or [*self._extensions]
                self.store.set(result.value, extensions, result.subject, result.validity)
            except ValueError as error:
                result = error
            else:
                return self._succeed(result)
        assert isinstance(result, BaseException)
        text = _text_of(result)
        reason = (
            text if isinstance(result, ValueError) else f"raised {type(result).__name__}{f': {text}' if text else ''}"
        )
        self._fail(reason, passes=endpoint.passes(result))
        return _backoff(self._failures)

    def _succeed(self, fetched: token.Token) -> float:
        if self._failures:
            logger.info("%s gives tokens again", self._name)
        self._failures = 0
        self._lasts = False
        self._fetched_at = time.monotonic()
        self._expires_at = fetched.expires_at
        life = fetched.expires_at - time.time()
        return max(_BACKOFF, min(life * _RENEW_AFTER, max(life - _LEAST_LEFT, life / 2)))

    def _fail(self, reason: str, *, passes: bool) -> None:
        self._failures += 1
        self._lasts = not passes and (self._lasts or self._failures >= _LASTS_AFTER)
        text = f"{self._name} gives no token: {reason}"
        if self._expires_at is None:
            self.store.fail(text, self._lasts)
        # One line for an outage.
        level = logging.ERROR if self._failures == 1 else logging.DEBUG
        if self._expires_at is None:
            consequence = "clients cannot log in until there is one"
        else:
            consequence = f"the last token is valid for {max(0.0, self._expires_at - time.time()):.0f} s more"
        logger.log(level, "%s; the source is asked again, and %s", text, consequence)
        self._check_expiry(reason)

    def _check_expiry(self, reason: str) -> None:
        if self._failures and self._expires_at is not None and time.time() >= self._expires_at:
            self._expires_at = None
            self.store.fail(f"the last token of {self._name} has expired, and {reason}", self._lasts)
            logger.error("the last token of %s has expired: clients cannot log in until there is a new one", self._name)
