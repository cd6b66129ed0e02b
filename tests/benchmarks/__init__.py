"""Tests of the benchmarks' arithmetic: a wrong median or ratio would be believed."""
