"""Links of pages to files outside of docs/: some of these files are pages of the site, too."""

import html
import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

# Documents of the root that are pages of the site.
DOCUMENTS = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/threat-model.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "examples/orders_to_invoices/README.md": "project/orders-to-invoices.md",
}
# Files that people copy: the site shows them, and the links to them lead there.
_SHOWN = ("examples/", "benchmarks/results/")
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".service": "ini", "": "docker"}
# A link, or code, in which there are no links.
_LINK = re.compile(r"(!?)\[((?:[^\[\]\n]|\n(?!\n)|\[[^\[\]\n]*\])*)\]\(([^()\s]+)\)|`[^`\n]+`")
_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[ ]*$", re.MULTILINE | re.DOTALL)


def page_of(path: str) -> str | None:
    """Returns the page of the site that shows a file of the tree (both relative); None if no page does."""
    if path in DOCUMENTS:
        return DOCUMENTS[path]
    if not path.startswith(_SHOWN) or not (ROOT / path).is_file():
        return None
    if path.endswith((".svg", ".json")):
        return f"project/{path}"
    return f"project/{path.removesuffix('.md')}.md" if path.endswith(".md") else f"project/{path}.md"


def text_of(path: str) -> str:
    """Returns the Markdown of the page that shows a file of the tree."""
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return text
    language = _LANGUAGES.get(Path(path).suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n````{language}\n{text}````\n"


def targets(markdown: str) -> list[str]:
    """Returns the targets of all links of a page, without those in code."""
    return [match[3] for match in _LINK.finditer(_FENCE.sub("", markdown)) if match[3]]


def leaving(source: str) -> set[str]:
    """Returns the files outside of docs/ that a file links to, all relative to the root."""
    found = set()
    for target in targets((ROOT / source).read_text()):
        if not re.match(r"[a-z]+:|#", target):
            path = _path(source, target.partition("#")[0])
            if not path.startswith("docs/") and (ROOT / path).exists():
                found.add(path)
    return found


def rewritten(markdown: str, source: str, page: str, source_url: str) -> str:
    """Returns the Markdown of `page` (relative to docs/), whose text is that of the file `source` of the tree.

    Links between files become links between pages. A link to code leads to `source_url`; if that is empty, its text
    stays and names the file when the pointer rests on it.
    """

    def replaced(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        if target is None or re.match(r"[a-z]+:|#", target):
            return match[0]
        name, hash_, anchor = target.partition("#")
        path = _path(source, name)
        there = path.removeprefix("docs/") if path.startswith("docs/") else page_of(path)
        if path in ("README.md", "docs"):
            there = "README.md"
        if there is not None:
            return f"{mark}[{text}]({posixpath.relpath(there, posixpath.dirname(page) or '.')}{hash_}{anchor})"
        if source_url:
            return f"{mark}[{text}]({source_url.rstrip('/')}/{path}{hash_}{anchor})"
        if text.startswith("`") and text.endswith("`"):
            return f'<code class="source" title="{path}">{html.escape(text.strip("`"))}</code>'
        return f'<span class="source" title="{path}">{text}</span>'

    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_LINK.sub(replaced, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(replaced, markdown[end:])])


def _path(source: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
