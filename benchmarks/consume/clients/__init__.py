"""One program per client. Each takes BOOTSTRAP TOPIC PARTITIONS RECORDS and prints one JSON line."""
