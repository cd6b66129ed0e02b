"""Brokers for tests of whole Apps: the fixture `kafka`, running Apps, faults, and reports of failures."""
