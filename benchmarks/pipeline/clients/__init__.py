"""Ways to write the service. Each runs until it is killed: BOOTSTRAP STYLE."""
