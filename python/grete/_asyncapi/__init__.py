"""AsyncAPI 3 document of what an App declares."""
