"""Figures that grow with partitions and brokers: idle CPU, CPU per record, memory, time to the first record, rebalances."""
