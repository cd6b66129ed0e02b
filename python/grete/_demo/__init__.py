"""Command `grete demo`: a broker, a producer and a swarm in one terminal. Only `screen` imports rich."""
