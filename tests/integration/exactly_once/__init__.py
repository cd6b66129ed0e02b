"""Exactly-once Apps: what a job produces, its dead letters and its offsets become visible together or not at all."""
