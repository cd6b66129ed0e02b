"""What is measured: Apps for `grete run` and `grete swarm`, which find their settings in the environment."""
