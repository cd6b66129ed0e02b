"""Apps that are measured, for `grete run` and `grete swarm`, which find their settings in the environment."""
