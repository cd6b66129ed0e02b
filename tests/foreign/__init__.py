"""Clients of others on the brokers of `--kafka`: they produce, join groups, reset offsets and use transactions."""
