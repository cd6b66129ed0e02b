"""Which process of a swarm a log line comes from."""

import logging
from typing import Any

_name = "-"
_before: Any = None


def name_lines(name: str) -> None:
    """From now on each log record of this process has `grete_node` = `name`, whichever formatter shows it or not."""
    global _name, _before
    _name = name
    if logging.getLogRecordFactory() is not _named:
        _before = logging.getLogRecordFactory()
        logging.setLogRecordFactory(_named)


def line_prefix() -> str:
    """What stands before each line that does not go through logging; nothing outside of a swarm."""
    return "" if _name == "-" else f"{_name}: "


def _named(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record: logging.LogRecord = _before(*args, **kwargs)
    record.grete_node = _name
    return record


class Formatter(logging.Formatter):
    """Shows `grete_node` even of records that a factory of the user's own has made."""

    def format(self, record: logging.LogRecord) -> str:
        """As `logging.Formatter` does."""
        if not hasattr(record, "grete_node"):
            record.grete_node = _name
        return super().format(record)
