"""Command group `grete acls`."""
