"""Thread that reads the topics of `grete web` into the store, and keeps the series."""

import logging
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from grete._web.state.store import Store
from grete._web.topics import AUDIT, ERRORS, HISTORY, REPORTS
from grete.client import Admin, Consumer, Producer
from grete.errors import GreteError

logger = logging.getLogger("grete.web")

_POLL = 1.0
_MEASURE_EVERY = 2.0
_ERRORS_OF = timedelta(days=2)
# Seconds between attempts to find topics that do not exist yet, or to read from brokers that do not answer.
_RETRY = 2.0
_CONSUMER = {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}


class Collector:
    """Thread "grete-web-collector": history first, then reports and errors, until `stop`."""

    def __init__(self, store: Store, settings: Mapping[str, Any]) -> None:
        self._store = store
        self._settings = dict(settings)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="grete-web-collector")
        self._has_audit = False
        self.problem: str | None = "has not read yet"
        """Why nothing is read; None: the topics are read."""
        self.read_up_to: int | None = None
        """Time of the last poll of the topics, in milliseconds since 1970."""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, and waits for its end."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                if self._topics_exist():
                    self._read()
            except GreteError as error:
                if self.problem != str(error):
                    logger.warning("the reports cannot be read: %s; the next attempt is in %g s", error, _RETRY)
                self.problem = str(error)
            except Exception as error:
                # The pages say so; without the thread they would show the past as if it were the present.
                logger.exception("the reports cannot be read; the next attempt is in %g s", _RETRY)
                self.problem = f"a defect: {type(error).__name__}; the log of grete web has the traceback"
            self._ended.wait(_RETRY)

    def _topics_exist(self) -> bool:
        with Admin(self._settings) as admin:
            present = set(admin.topics(internal=True, timeout=10.0))
        self._has_audit = AUDIT in present  # clusters that an older version has set up lack it
        missing = [name for name in (REPORTS, ERRORS, HISTORY) if name not in present]
        if missing:
            self.problem = f"the topics {', '.join(missing)} do not exist: create them with grete web setup"
        return not missing

    def _read(self) -> None:
        self._restore()
        with (
            Consumer(self._settings | _CONSUMER) as consumer,
            Producer(self._settings | {"compression.type": "lz4"}) as producer,
        ):
            since = datetime.now(UTC) - _ERRORS_OF
            audits = consumer.partitions(AUDIT) if self._has_audit else ()
            consumer.assign(
                [
                    *((REPORTS, partition, "earliest") for partition in consumer.partitions(REPORTS)),
                    *((ERRORS, partition, since) for partition in consumer.partitions(ERRORS)),
                    *((AUDIT, partition, since) for partition in audits),
                ]
            )
            measured_at, live = 0.0, False
            while not self._ended.is_set():
                messages = consumer.poll(_POLL)
                # Everything that was there has been read once a poll finds nothing.
                live = live or not len(messages)
                self._add(messages, live)
                now = time.monotonic()
                if now - measured_at >= _MEASURE_EVERY:
                    measured_at = now
                    self._store.measure(_millis())
                    self._keep(producer)
                self.problem, self.read_up_to = None, _millis()

    def _add(self, messages: Any, live: bool) -> None:
        now = _millis()
        for message in messages:
            if message.topic == REPORTS:
                self._store.add_report(message.key, message.value, message.timestamp, now, live=live)
            elif message.topic == AUDIT:
                self._store.add_audit(message.value, (message.partition, message.offset))
            else:
                self._store.add_error(message.value, (message.partition, message.offset))

    def _keep(self, producer: Producer) -> None:
        for key, value in self._store.due_history(_millis()):
            producer.produce(HISTORY, value, key=key)

    def _restore(self) -> None:
        from grete._dlq.reader import offset_ranges, read_range

        with Admin(self._settings) as admin, Consumer(self._settings | _CONSUMER) as consumer:
            for span in offset_ranges(admin, HISTORY, None, 10.0):
                for messages in read_range(consumer, HISTORY, span, 10.0):
                    for message in messages:
                        self._store.restore(message.key, message.value, _millis())


def _millis() -> int:
    return int(time.time() * 1000)
