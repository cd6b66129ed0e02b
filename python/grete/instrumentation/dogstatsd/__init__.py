"""Figures for a Datadog agent, in datagrams."""

from grete.instrumentation.dogstatsd.listener import DogStatsD

__all__ = ["DogStatsD"]
