"""Numbers with their nouns in log lines and error messages: "1 record", "2 records"."""


def plural(count: int, one: str, many: str | None = None) -> str:
    """Returns `one` for the count 1. Otherwise returns `many`, by default `one` with an "s"."""
    return one if count == 1 else many if many is not None else f"{one}s"


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun, whose plural ends in "s": "1 record", "2 records"."""
    return f"{count} {plural(count, noun)}"
