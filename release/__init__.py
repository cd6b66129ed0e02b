"""Wheels: what is built for which platform, and what goes into each."""
