"""Reading, replaying and purging of dead letters: the functions of `grete dlq`, without the CLI."""
