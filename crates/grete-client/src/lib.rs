//! Floor 3: threads, queues, condvars, config: the Rust API of the consumer.
