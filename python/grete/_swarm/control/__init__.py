"""Control socket of a swarm: `server` answers in the supervisor, `client` asks, `socket_path` finds and protects it."""
