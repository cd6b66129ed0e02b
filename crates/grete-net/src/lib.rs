//! Floor 2: the only Kafka client I/O: one mio loop, DNS, timers, fork generation.
