"""Command `grete top`: reports of Apps as one frame of text, again and again."""
