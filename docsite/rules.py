"""Rules of the pages that need no build: `python -m docsite.rules`. `make lint` calls it.

- A page has at most 2,500 words outside of code and of tables that are generated: those are looked up, and not read.
- A page opens with what the reader will be able to do: of the tutorial, a guide, the reference, or the explanation.
- A diagram is what its text says.
"""

import re
import sys
from collections.abc import Iterator

from docsite import diagrams
from docsite.outside import DOCS

MAX_WORDS = 2500
# Pages that are generated from the code.
GENERATED = ("api/", "cli/", "errors/", "events.md")
# One table, which is searched and never read from top to bottom: the names that have changed.
_TABLES = {"adr/0001-names.md"}
# How a page of each kind opens. The page of the project itself and the list of decisions are of no kind.
_LESSON, _REFERENCE, _EXPLANATION = "After this ", ("Look up ", "Find "), "Read here "
_NO_KIND = {"README.md", "tutorial/README.md", "guides/README.md"}


def words(text: str) -> int:
    """Returns the number of words that are read: without code and generated parts."""
    text = re.sub(r"<!-- ([\w-]+) -->.*?<!-- end of \1 -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(```+).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    return len(re.sub(r"^ {4}.*$|[|]", "", text, flags=re.MULTILINE).split())


def opening(text: str) -> str:
    """Returns the first line behind the title."""
    return next((line for line in text.splitlines() if line and not line.startswith("#")), "")


def openings(page: str) -> tuple[str, ...]:
    """Returns with which words a page may open; an empty tuple: with any."""
    if page in _NO_KIND or page.startswith("adr/"):
        return ()
    if page.startswith(("tutorial/", "guides/", "migration/")):
        return (_LESSON,)
    if page.startswith("architecture/"):
        return (_EXPLANATION,)
    return (*_REFERENCE, _EXPLANATION)


def breaches() -> Iterator[str]:
    """Returns each breach of the rules."""
    for path in sorted(DOCS.rglob("*.md")):
        page = path.relative_to(DOCS).as_posix()
        if page.startswith(GENERATED) or page in _TABLES:
            continue
        text = path.read_text()
        if (count := words(text)) > MAX_WORDS:
            yield f"docs/{page}: {count} words, more than {MAX_WORDS}: split the page"
        if (allowed := openings(page)) and not opening(text).startswith(allowed):
            words_of_kind = " or ".join(f"{one}..." for one in allowed)
            yield f"docs/{page}: begin with what the reader will be able to do: {words_of_kind}"
    for name in diagrams.outdated():
        yield f"docs/diagrams/{name}: out of date; `python -m docsite.diagrams` writes it"


if __name__ == "__main__":
    if found := list(breaches()):
        sys.exit("\n".join(found))
