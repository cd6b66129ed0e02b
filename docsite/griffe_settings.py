"""Extension of Griffe: the settings in docstrings become Markdown lists on the pages of the API."""

import re
from typing import Any

import griffe

_ENTRY = re.compile(r" {4}([\w.]+) (\(.*)")


class Settings(griffe.Extension):
    """Turns the lines below "Settings:" into a list, and gives code without a language that of Python."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:  # noqa: ARG002
        """Rewrites the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Returns a docstring with a Markdown list in the place of indented settings."""
    lines: list[str] = []
    in_settings = in_code = False
    for line in text.splitlines():
        if line.startswith("```"):
            in_code = not in_code
            lines.append("```python" if in_code and line == "```" else line)
        elif line == "Settings:":
            in_settings = True
            lines += ["**Settings**", ""]
        elif in_settings and (entry := _ENTRY.fullmatch(line)):
            lines.append(f"- `{entry[1]}` {entry[2]}")
        else:
            in_settings = in_settings and (not line or line.startswith(" "))
            lines.append(f"  {line.strip()}" if in_settings and line else line)
    return "\n".join(lines)
