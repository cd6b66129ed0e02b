"""State of all Apps, folded from their reports. No thread, no clock and no Kafka here: times are arguments."""
