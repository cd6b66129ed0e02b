"""Did you mean."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?`, or nothing when nothing is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f'; did you mean "{near[0]}"?' if near else ""
