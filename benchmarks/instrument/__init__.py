"""What it costs to tell what happens: mostly to nobody."""
