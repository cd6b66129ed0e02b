"""Schema Registry: its client, and what the formats Avro, Protobuf and JSON Schema have in common.

| module | holds |
|---|---|
| `client`, `transport`, `auth` | `Registry`: requests over HTTP, addresses, TLS, tokens, the wait after failures |
| `cache` | what is made of a schema, made once, without holding up a handler |
| `wire`, `subjects`, `schemas` | prefix and header of records, names of subjects, schemas |
| `format`, `conversion` | encoders and decoders, options, a user's types |

A registry is an address, a `Registry`, or an object with the methods of `SchemaSource` (and `SchemaTarget` to write).
"""

from grete.payloads.schema_registry.auth import ClientCredentials
from grete.payloads.schema_registry.client import Registry
from grete.payloads.schema_registry.conversion import converter
from grete.payloads.schema_registry.schemas import Compatibility, Reference, Schema, SchemaSource, SchemaTarget
from grete.payloads.schema_registry.subjects import SubjectName, SubjectStrategy

__all__ = [
    "ClientCredentials",
    "Compatibility",
    "Reference",
    "Registry",
    "Schema",
    "SchemaSource",
    "SchemaTarget",
    "SubjectName",
    "SubjectStrategy",
    "converter",
]
