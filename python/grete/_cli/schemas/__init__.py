"""Command group `grete schemas`: the schemas that an App declares, and those of its Schema Registry."""

from grete._cli.schemas.commands import schemas

__all__ = ["schemas"]
