"""Forms of keys, values and headers for pages. Records are not trusted: nothing here is markup."""

import json
from dataclasses import dataclass

MAX_SHOWN = 64 * 1024
"""Bytes of a value that a page shows; the download has all."""
_HEX_WIDTH = 16
_MAX_HEX = 4096


@dataclass(frozen=True, slots=True)
class Shown:
    """Bytes in a form for people. `form`: "json", "text", "hex" or "null"."""

    form: str
    text: str
    size: int
    """Bytes of the whole."""
    is_cut: bool = False

    @property
    def line(self) -> str:
        """Beginning of the text on one line."""
        if self.form == "json":
            try:
                text = json.dumps(json.loads(self.text), ensure_ascii=False, separators=(",", ":"))
                return text[:200].encode("utf-8", "backslashreplace").decode()
            except ValueError:
                pass
        return " ".join(self.text[:400].split())[:200]


def shown(data: bytes | None, form: str = "auto") -> Shown:
    """Returns the bytes as JSON if they are, else as text if they are, else in hex; or in the form that is
    asked for.
    """
    if data is None:
        return Shown("null", "null", 0)
    part = data[:MAX_SHOWN]
    is_cut = len(part) < len(data)
    if form in ("auto", "json") and not is_cut and part[:1].strip(b" \t\r\n") in (b"{", b"[", b'"', b""):
        try:
            text = json.dumps(json.loads(part), indent=2, ensure_ascii=False)
            # JSON may hold halves of characters, which no page can.
            return Shown("json", text.encode("utf-8", "backslashreplace").decode(), len(data))
        except (ValueError, RecursionError):
            pass
    if form != "hex":
        plain = _text(part, is_cut)
        if plain is not None:
            return Shown("text", plain, len(data), is_cut)
        if form == "text":
            return Shown("text", part.decode("utf-8", "backslashreplace"), len(data), is_cut)
    return Shown("hex", _hex(data[:_MAX_HEX]), len(data), len(data) > _MAX_HEX)


def _text(part: bytes, is_cut: bool) -> str | None:
    """Returns the text; None: it is no UTF-8, or has control characters."""
    for end in range(len(part), max(len(part) - 4, -1), -1):
        try:
            text = part[:end].decode()
        except UnicodeDecodeError:
            if not is_cut:
                return None
            continue
        return text if text.translate(_BREAKS).isprintable() else None
    return None


_BREAKS = str.maketrans("", "", "\n\r\t")


def _hex(data: bytes) -> str:
    lines = []
    for at in range(0, len(data), _HEX_WIDTH):
        part = data[at : at + _HEX_WIDTH]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<{3 * _HEX_WIDTH - 1}}  {letters}")
    return "\n".join(lines)
