"""One program per client. Each takes BOOTSTRAP TOPIC PARTITIONS RECORDS wait=SECONDS, and more settings of its own."""
