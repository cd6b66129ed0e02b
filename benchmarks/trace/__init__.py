"""Spans: what it costs to write them, to send them, and to have an agent that does not take them."""
