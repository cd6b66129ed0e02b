"""The tests of Grete, and what they stand on."""
