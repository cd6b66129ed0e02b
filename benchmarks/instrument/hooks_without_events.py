"""`HookRunner` without the calls that emit events of jobs: made of the module's own source, so that it follows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grete._processing.engine import hook_runner

# The names in that source that emit events.
WORDS = frozenset({"JobEvents", "_job_events"})


def mentions(node: ast.AST) -> Iterator[str]:
    """The words in the code of a node."""
    for part in ast.walk(node):
        word = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
        if word in WORDS:
            yield word


class Silencer(ast.NodeTransformer):
    """Takes out the statements that emit events."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | None:
        """Takes out assignments of the emitting objects."""
        return None if any(mentions(node)) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        """Takes out the methods that only jobs with a listener call."""
        return None if node.name.endswith("_with_events") else self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST | None:
        """Does the same with coroutine functions."""
        return None if node.name.endswith("_with_events") else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt] | None:
        """Keeps the branch of a job without a listener: a job that brings records is plain."""
        self.generic_visit(node)
        return node.body if isinstance(node.test, ast.Name) and node.test.id == "plain" else node

    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        """Keeps the body of a block whose context manager emits events."""
        self.generic_visit(node)
        return node.body if any(mentions(node.items[0].context_expr)) else node


def silenced(source: str) -> ast.Module:
    """The module without events. AssertionError if a statement is left that emits one."""
    tree: ast.Module = ast.fix_missing_locations(Silencer().visit(ast.parse(source)))
    if left := sorted(set(mentions(tree))):
        raise AssertionError(f"the hook runner still names what emits events: {', '.join(left)}")
    return tree


def both(silent_first: bool) -> dict[bool, type[hook_runner.HookRunner]]:
    """`Hooks` without events (True) and as they are (False), made in the same way, one after the other.

    Which comes first decides where they lie in memory, and that is worth a per cent of a small job.
    """
    path = Path(hook_runner.__file__)
    source = path.read_text()
    trees = {silent: silenced(source) if silent else ast.parse(source) for silent in (silent_first, not silent_first)}
    return {silent: _made(tree, path) for silent, tree in trees.items()}


def _made(tree: ast.Module, path: Path) -> type[hook_runner.HookRunner]:
    names: dict[str, Any] = {"__name__": hook_runner.__name__}
    exec(compile(tree, str(path), "exec"), names)
    kind: type[hook_runner.HookRunner] = names["HookRunner"]
    return kind
