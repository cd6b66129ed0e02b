"""What the pages ask brokers for: groups, topics, records, dead letters."""
