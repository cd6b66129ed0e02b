"""Apps that tests run as processes of their own, by `grete run`."""
