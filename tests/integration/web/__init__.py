"""Tests of `grete web` with brokers and Apps."""
