"""`Hooks` with all calls taken out that tell of jobs: made of the module's own source, so that it follows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grete.processing import hooks

# The names by which that source knows that something is told.
WORDS = frozenset({"Reports", "_reports"})


def mentions(node: ast.AST) -> Iterator[str]:
    """The words in the code of a node."""
    for part in ast.walk(node):
        word = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
        if word in WORDS:
            yield word


class Silencer(ast.NodeTransformer):
    """Takes out what tells."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | None:
        """What events are told with."""
        return None if any(mentions(node)) else node

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt] | None:
        """Nobody listens: a job that brings records is plain."""
        self.generic_visit(node)
        return node.body if isinstance(node.test, ast.Name) and node.test.id == "plain" else node

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        """What tells around a block."""
        self.generic_visit(node)
        return node.body if any(mentions(node.items[0].context_expr)) else node


def silenced(source: str) -> ast.Module:
    """The module as it would be. AssertionError where it tells in a way that this cannot take out."""
    tree: ast.Module = ast.fix_missing_locations(Silencer().visit(ast.parse(source)))
    if left := sorted(set(mentions(tree))):
        raise AssertionError(f"hooks tell what this does not know how to take out: {', '.join(left)}")
    return tree


def both(silent_first: bool) -> dict[bool, type[hooks.Hooks]]:
    """`Hooks` without events (True) and as they are (False), made in the same way, one after the other.

    Which comes first decides where they lie in memory, and that is worth a per cent of a small job.
    """
    path = Path(hooks.__file__)
    source = path.read_text()
    trees = {silent: silenced(source) if silent else ast.parse(source) for silent in (silent_first, not silent_first)}
    return {silent: _made(tree, path) for silent, tree in trees.items()}


def _made(tree: ast.Module, path: Path) -> type[hooks.Hooks]:
    names: dict[str, Any] = {"__name__": hooks.__name__}
    exec(compile(tree, str(path), "exec"), names)
    kind: type[hooks.Hooks] = names["Hooks"]
    return kind
