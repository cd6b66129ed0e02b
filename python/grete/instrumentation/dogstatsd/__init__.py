"""Metrics for a Datadog agent (DogStatsD), in datagrams."""

from grete.instrumentation.dogstatsd.listener import DogStatsD

__all__ = ["DogStatsD"]
