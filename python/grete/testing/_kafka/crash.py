"""Crash of an App in a test."""

import contextlib
from types import TracebackType

from grete.broker import Broker
from grete.errors import BrokerError
from grete.testing._kafka.running import RunningTestApp


class Crash(contextlib.AbstractContextManager[None]):
    """Context manager of `kafka.crash`: the App dies at the end of the block, before its commit.

    Attributes:
        has_begun: whether the block was entered.
    """

    def __init__(self, broker: Broker, t: RunningTestApp) -> None:
        self._broker = broker
        self._app = t
        self.has_begun = False

    def __enter__(self) -> None:
        self.has_begun = True
        self._app.withhold_commits()
        self._broker.never_answer("OffsetCommit", client_id=self._app.client_id)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._app.await_handled()
        finally:
            self._broker.disconnect(None, client_id=self._app.client_id)
            self._app.kill()
            for group in self._app.groups:
                with contextlib.suppress(BrokerError):  # it was no member
                    self._broker.expire_session(group, self._app.client_id)
