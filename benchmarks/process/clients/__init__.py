"""One program per client. Each takes BOOTSTRAP TOPIC PARTITIONS RECORDS [NAME=VALUE ...] and prints one JSON line.

The peers' run in environments of their own: they import nothing of Grete.
"""
