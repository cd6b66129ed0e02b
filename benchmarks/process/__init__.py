"""Processing: what it costs to get each record to a handler, and what waiting handlers cost the others."""
