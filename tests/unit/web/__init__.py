"""Tests of `grete web` without brokers."""
