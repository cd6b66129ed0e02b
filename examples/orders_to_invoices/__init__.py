"""One service, written three times: with Grete, with FastStream, and with confluent-kafka."""
