"""Cost of events, mostly without a listener."""
