"""Escapes for bytes on a command line and in output: `\\t` is a tab, `\\x1f` any byte."""

import re

_NAMED = {"t": b"\t", "n": b"\n", "r": b"\r", "0": b"\0", "\\": b"\\"}
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.?))", re.DOTALL)

# Characters that would move a terminal's cursor, ring its bell or start a command to it; line breaks; and characters
# that reverse the direction of the text after them, so that it looks like another text.
_BYTES_LIKE = (*range(32), 127, *range(128, 160))
_INVISIBLE = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_CONTROL = {code: f"\\x{code:02x}" for code in _BYTES_LIKE if code != 0x09}
_CONTROL |= {code: f"\\u{code:04x}" for code in _INVISIBLE}
_CONTROL_IN_LINES = {code: text for code, text in _CONTROL.items() if code != 0x0A}
_CONTROL_IN_JSON = {code: f"\\u{code:04x}" for code in _CONTROL}


def printable(text: str) -> str:
    """Returns the text on one line, with control characters escaped; tabs stay."""
    return text.translate(_CONTROL)


def printable_lines(text: str) -> str:
    """Returns the text with control characters escaped; tabs and line breaks stay."""
    return text.translate(_CONTROL_IN_LINES)


def json_safe(text: str) -> str:
    """Returns JSON on one line in which control characters are escaped; it has the same meaning."""
    return text.translate(_CONTROL_IN_JSON)


def unescaped(text: str) -> bytes:
    r"""Returns the bytes of `text` with \t, \n, \r, \0, \\ and \xNN replaced. Raises ValueError for other escapes."""
    parts, at = [], 0
    for match in _ESCAPE.finditer(text):
        code, name = match.groups()
        if code is None and name not in _NAMED:
            known = r"\t, \n, \r, \0, \xNN, and \\ for a backslash"
            raise ValueError(f'"{match[0]}" is no escape: there are {known}')
        parts += [_bytes(text[at : match.start()]), bytes.fromhex(code) if code else _NAMED[name]]
        at = match.end()
    return b"".join([*parts, _bytes(text[at:])])


def escaped(value: bytes) -> str:
    """Returns text that `unescaped` reads as `value`, without control and invisible characters."""
    names = {byte[0]: f"\\{name}" for name, byte in _NAMED.items()}
    shown = []
    for character in value.decode("utf-8", "surrogateescape"):
        code = ord(character)
        if code in names:
            shown.append(names[code])
        elif character.isprintable():
            shown.append(character)
        else:
            shown += [f"\\x{byte:02x}" for byte in _bytes(character)]
    return "".join(shown)


def _bytes(text: str) -> bytes:
    """Returns the typed bytes: Python keeps bytes that are not UTF-8 as surrogates."""
    return text.encode("utf-8", "surrogateescape")
