"""Dead letters once they are written: reading, replaying and purging them. What `grete dlq` does, without the CLI."""
