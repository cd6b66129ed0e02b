"""Requests of the pages to brokers: groups, topics, records, dead letters."""
