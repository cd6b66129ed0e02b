"""Schemas that an App declares: those of its topics, else of what its routes read."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from grete._config import topic_patterns
from grete.app import App
from grete.errors import SchemaNotFoundError
from grete.payloads.schema_registry.format import DeclaredSchema, RegistryFormat
from grete.payloads.schema_registry.schemas import Schema


@dataclass(frozen=True, slots=True)
class Declaration:
    """Schema that an App declares, with its registry and the files that it imports.

    Attributes:
        imports: (subject, schema) of Protobuf files that the schema's file imports, dependencies first.
        missing: how many of the imports are not registered.
    """

    format: RegistryFormat
    declared: DeclaredSchema
    imports: tuple[tuple[str, Schema], ...]
    missing: int

    @property
    def registry(self) -> Any:
        """Client of the registry."""
        return self.format.registry


def formats(app: App) -> Iterator[tuple[str, str, RegistryFormat]]:
    """Yields (topic, part, format) of everything that an App declares with a Schema Registry, each once."""
    seen: set[tuple[str, str, int]] = set()
    for topic, part, spec in _specs(app):
        if isinstance(spec, RegistryFormat) and (topic, part, id(spec)) not in seen:
            seen.add((topic, part, id(spec)))
            yield topic, part, spec


def declarations(app: App, topics: tuple[str, ...], lookup: bool = True) -> list[Declaration]:
    """Returns the schemas that an App declares; `topics`: of these alone, if there are any.

    Imported Protobuf files are looked up, because a schema names their versions. A file that is not registered counts
    as version 1 until `grete schemas register` has registered it.
    """
    found: list[tuple[RegistryFormat, DeclaredSchema, _Imports]] = []
    for topic, part, form in formats(app):
        if topics and topic not in topics:
            continue
        imports = _Imports(form, lookup)
        # A schema may be declared for several topics, whose subject is one and the same.
        found.extend((form, one, imports) for one in form.declared(topic, part, imports.refer))
    unique: dict[tuple[int, str, str], Declaration] = {}
    for form, one, imports in found:
        made = Declaration(form, one, tuple(imports.files.items()), imports.missing)
        unique.setdefault((id(form.registry), one.subject, one.schema.text), made)
    return list(unique.values())


def register(declaration: Declaration) -> Schema:
    """Registers a schema and the files that it imports, and returns it with id and version."""
    form, declared = declaration.format, declaration.declared

    def refer(subject: str, schema: Schema) -> Schema:
        made = declaration.registry.register(subject, schema, declared.normalize)
        return _with_version(declaration, subject, schema, made)

    again = next(one for one in form.declared(declared.topic, declared.part, refer) if one.subject == declared.subject)
    made = declaration.registry.register(again.subject, again.schema, again.normalize)
    return _with_version(declaration, again.subject, again.schema, made)


def _with_version(declaration: Declaration, subject: str, schema: Schema, made: Schema) -> Schema:
    """Returns the registered schema; older registries answer a registration without its version."""
    if made.version is not None:
        return made
    found: Schema = declaration.registry.lookup(subject, schema, declaration.declared.normalize)
    return found


class _Imports:
    """Imported files of one format: looked up, and counted if they are missing."""

    def __init__(self, form: RegistryFormat, lookup: bool) -> None:
        self._form = form
        self._lookup = lookup
        self.files: dict[str, Schema] = {}
        self.missing = 0

    @property
    def refer(self) -> Callable[[str, Schema], Schema]:
        """Function that a format calls for each imported file."""
        return self._refer

    def _refer(self, subject: str, schema: Schema) -> Schema:
        self.files[subject] = schema
        registry: Any = self._form.registry
        if self._lookup:
            try:
                found: Schema = registry.lookup(subject, schema, self._form.options.normalize)
                return found
            except SchemaNotFoundError:
                self.missing += 1
        return Schema(schema.text, schema.kind, schema.references, version=1)


def _specs(app: App) -> Iterator[tuple[str, str, object]]:
    """Yields (topic, part, specification): of the App's topics, then of its routes."""
    topics: Mapping[str, Any] = getattr(app, "topics", None) or {}
    for name, topic in topics.items():
        yield name, "key", getattr(topic, "key", None)
        yield name, "value", getattr(topic, "value", None)
    for route in app.routes:
        for name in topic_patterns.names(route.topics):
            yield str(name), "value", route.payload
