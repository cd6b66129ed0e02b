"""Hooks of MkDocs: pages for files outside of docs/, links to them, and pages that the navigation does not name."""

import posixpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from docsite import outside

# Pages that the navigation does not name are listed here, by their folder: other pages may arrive with other changes.
_SECTIONS = {
    "guides": ("How-to guides",),
    "migration": ("How-to guides", "Coming from another client"),
    "tutorial": ("Tutorial",),
    "architecture": ("Explanation", "Architecture"),
    "adr": ("Explanation", "Decisions"),
}
_FOREIGN_SCRIPT = "https://unpkg.com/iframe-worker/shim"
# Files of the tree, by the pages that show them.
_sources: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the pages that the navigation does not name to its sections, and the choice of a version."""
    assert config.nav is not None
    if not config.plugins["material/offline"].config.enabled:  # pages that are opened as files find no list of versions
        config.extra["version"] = {"provider": "mike"}
    named = set(_names(config.nav))
    for path in sorted(outside.DOCS.rglob("*.md")):
        page = path.relative_to(outside.DOCS).as_posix()
        if page not in named:
            pages = config.nav
            for title in _SECTIONS.get(posixpath.dirname(page), ("Reference",)):
                pages = _section(pages, title)
            pages.append(page)
    return config


def _names(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [name for one in (nav.values() if isinstance(nav, dict) else nav) for name in _names(one)]


def _section(pages: list[Any], title: str) -> list[Any]:
    """Returns the list of a section, which is added if it is missing."""
    for one in pages:
        if isinstance(one, dict) and title in one:
            found: list[Any] = one[title]
            return found
    made: list[Any] = []
    pages.append({title: made})
    return made


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each document and each shown file that a page links to."""
    _sources.clear()
    waiting = [f"docs/{file.src_uri}" for file in files.documentation_pages()] + [*outside.DOCUMENTS]
    seen = set(waiting)
    for path in outside.DOCUMENTS:
        _add(files, config, path)
    while waiting:
        for path in sorted(outside.leaving(waiting.pop())):
            if path not in seen and outside.page_of(path) is not None:
                seen.add(path)
                _add(files, config, path)
                if path.endswith(".md"):
                    waiting.append(path)
    return files


def _add(files: Files, config: MkDocsConfig, path: str) -> None:
    page = outside.page_of(path)
    assert page is not None
    if page.endswith(".md"):
        _sources[page] = path
        files.append(File.generated(config, page, content=outside.text_of(path), inclusion=InclusionLevel.NOT_IN_NAV))
    else:
        files.append(File.generated(config, page, content=(outside.ROOT / path).read_bytes()))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Leads links to files outside of docs/ to their pages."""
    source_url = str(config.extra.get("source_url") or "")
    uri = page.file.src_uri
    return outside.rewritten(markdown, _sources.get(uri, f"docs/{uri}"), uri, source_url)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Marks the lines of a log, which are shown whole."""
    return html.replace('class="highlight"', 'class="highlight log"') if page.url.startswith("errors/") else html


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Replaces the script of another host that pages opened as files would load for their search; names the search."""
    local = posixpath.relpath("javascripts/file-worker.js", posixpath.dirname(page.url) or ".")
    return _mended(output, local)


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:  # noqa: ARG001
    """Does the same for the page of unknown addresses."""
    return _mended(output, "javascripts/file-worker.js")


def _mended(output: str, worker: str) -> str:
    return output.replace(_FOREIGN_SCRIPT, worker).replace('role="dialog"', 'role="dialog" aria-label="Search"')
