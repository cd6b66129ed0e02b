"""One program per client: each subscribes to IDLE_TOPIC at IDLE_BOOTSTRAP in group IDLE_GROUP, and waits forever."""
