"""Spans and metrics of jobs through OpenTelemetry's API. The SDK that is set up exports them.

app.monitor.subscribe(OpenTelemetry())
"""

try:
    import opentelemetry.metrics
    import opentelemetry.trace  # noqa: F401
except ImportError as error:
    raise ImportError(
        'grete.instrumentation.opentelemetry needs OpenTelemetry\'s API: pip install "grete[opentelemetry]"'
    ) from error

from grete.instrumentation.opentelemetry.listener import OpenTelemetry
from grete.instrumentation.opentelemetry.propagation import inject

__all__ = ["OpenTelemetry", "inject"]
