"""State of a swarm for users: `snapshot` collects it, `health_checks`, `metrics` and `memory` present it."""
