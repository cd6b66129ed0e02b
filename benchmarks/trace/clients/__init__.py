"""One process for each client, started by the driver."""
