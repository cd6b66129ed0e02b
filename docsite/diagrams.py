"""Diagrams."""


def outdated() -> list[str]:
    """Returns the diagrams that are out of date."""
    return []
