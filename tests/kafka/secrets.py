"""Secrets of tests. All have one mark, so that a check of the whole run finds those that a log or an error shows.

The mark is of lower case letters and digits alone: it survives in host names, in variables of the environment and in
base32, and ordinary text never has it.
"""

from __future__ import annotations

import base64

MARK = "q7vz9xk2"

# Marks of secrets that tests wrote before, and of those in Rust.
MARKS = (MARK, "hunter2", "s3cret")


def secret(name: str = "test") -> str:
    """Return a password, a token or another secret. Equal names make equal secrets."""
    return f"{MARK}-{name}"


def forms(mark: str = MARK) -> list[str]:
    """Return the mark in the forms in which a secret may be shown: as it is, in base64 (at each of the three offsets of
    its bytes), in hexadecimal numbers, and as a list of bytes.
    """
    raw = mark.encode()
    inner = []
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + raw + bytes(3)).decode()
        # The characters at both ends depend on the bytes beside the mark.
        inner.append(encoded[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6])
    return [mark, *inner, raw.hex(), ", ".join(map(str, raw))]
