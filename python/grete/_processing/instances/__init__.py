"""Consumer instances: creation (`registry`, `context`), background work, producers, teardown, leaked threads."""
