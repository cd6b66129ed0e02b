"""HTTP of `grete web`: guard, pages and their data."""
