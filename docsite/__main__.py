"""Writes the generated pages: `python -m docsite`. With `--check` it names those that are out of date instead."""

import sys
from collections.abc import Iterator

from docsite import api, cli, errors
from docsite.outside import DOCS


def pages() -> Iterator[tuple[str, str]]:
    """Returns path (in docs/) and text of each generated page."""
    yield from api.pages()
    yield from cli.pages()
    yield from errors.pages()


def outdated() -> list[str]:
    """Returns the pages whose file is missing or has another text, and files that no generator makes any more."""
    made = dict(pages())
    folders = {path.partition("/")[0] for path in made}
    present = {path.relative_to(DOCS).as_posix() for folder in folders for path in (DOCS / folder).rglob("*.md")}
    changed = [path for path, text in made.items() if path not in present or (DOCS / path).read_text() != text]
    return changed + sorted(present - made.keys())


def write() -> None:
    """Writes the pages that are out of date, and removes those that no generator makes any more."""
    made = dict(pages())
    for path in outdated():
        file = DOCS / path
        if path not in made:
            file.unlink()
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(made[path])


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        write()
    elif found := outdated():
        sys.exit(f"out of date: {', '.join(found)}; `python -m docsite` writes them")
