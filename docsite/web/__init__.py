"""Walk through the pages of `grete web` in a browser."""
