"""Figures that grow with partitions and brokers: idle CPU, CPU per record, memory, first record, rebalances."""
