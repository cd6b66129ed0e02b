"""Read JSON orders, compute, write JSON invoices with their keys: the CPU of one record, per client.

- `__main__`: driver, with the brokers in its process; `records`: topics and their contents
- `clients`: one process for each way to write the service; `peers`: how each is started. Java's programs are
  `benchmarks/java/PipelineLoop.java` and `streams`, with Kafka Streams from Maven Central
"""
