"""Reports of a process for `grete web`: its state, its settings and its errors, as records of Kafka topics."""
