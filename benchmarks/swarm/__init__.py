"""Several processes: what they bring to handlers that compute, and what they cost in memory and in time."""
