"""Destination and identity of a tracer, from its arguments or else from the environment."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from grete.errors import ConfigError

Pairs = list[tuple[str, str]]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
# Headers that the exporter sets itself.
_RESERVED_HEADERS = frozenset(
    {"host", "content-type", "content-length", "content-encoding", "transfer-encoding", "connection"}
)
_TRACES = "/v1/traces"


@dataclass(frozen=True, slots=True)
class ExporterConfig:
    """`path` is appended to the agent's URL; None: Datadog's path. `resource`: for OTLP only; else None."""

    service: str
    env: str
    version: str
    agent: str
    path: str | None
    headers: Pairs
    resource: Pairs | None


def datadog(
    service: str | None, env: str | None, version: str | None, agent: str | None, headers: Mapping[str, str] | None
) -> ExporterConfig:
    """Reads the variables that Datadog's tracers read."""
    environment = os.environ
    return ExporterConfig(
        service=_require_service(service or environment.get("DD_SERVICE"), "DD_SERVICE"),
        env=environment.get("DD_ENV", "") if env is None else env,
        version=environment.get("DD_VERSION", "") if version is None else version,
        agent=agent or _datadog_agent(),
        path=None,
        headers=_checked((headers or {}).items(), "headers"),
        resource=None,
    )


def otlp(
    service: str | None, env: str | None, version: str | None, agent: str | None, headers: Mapping[str, str] | None
) -> ExporterConfig:
    """Reads the variables that OpenTelemetry's SDKs read, then those of Datadog."""
    environment = os.environ
    resource = _pairs("OTEL_RESOURCE_ATTRIBUTES")
    service_name, runs, versioned = (
        resource.pop(key, "") for key in ("service.name", "deployment.environment.name", "service.version")
    )
    service = service or environment.get("OTEL_SERVICE_NAME") or service_name or environment.get("DD_SERVICE")
    url, path = (agent, _TRACES) if agent else _collector()
    header_pairs = (
        headers if headers is not None else _pairs("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
    )
    return ExporterConfig(
        service=_require_service(service, "OTEL_SERVICE_NAME"),
        env=(runs or environment.get("DD_ENV", "")) if env is None else env,
        version=(versioned or environment.get("DD_VERSION", "")) if version is None else version,
        agent=url,
        path="" if url.rstrip("/").endswith(_TRACES) else path,
        headers=_checked(header_pairs.items(), "headers"),
        resource=list(resource.items()),
    )


def _require_service(service: str | None, variable: str) -> str:
    if not service:
        raise ConfigError(
            f'a tracer needs the name of the service that it traces: Tracer("orders"), or {variable}', setting="service"
        )
    return service


def _datadog_agent() -> str:
    environment = os.environ
    if url := environment.get("DD_TRACE_AGENT_URL"):
        return url
    host = environment.get("DD_AGENT_HOST", "localhost")
    port = environment.get("DD_TRACE_AGENT_PORT", "8126")
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _collector() -> tuple[str, str]:
    """Returns the URL and the path to append. The variable for traces alone holds a whole URL, with path ""."""
    environment = os.environ
    whole, base = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), environment.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := environment.get(variable):
            if protocol == "grpc" and (whole or base):
                raise ConfigError(
                    f"{variable}=grpc, and a tracer speaks http/protobuf only: give the collector's port for it, "
                    'mostly 4318, as agent="http://HOST:PORT"',
                    setting="agent",
                    origin=variable,
                )
            break
    return (whole, "") if whole else (base or "http://localhost:4318", _TRACES)


def _pairs(*variables: str) -> dict[str, str]:
    """Parses the first variable that is set: `key=value,key=value`, percent-encoded."""
    variable = next((variable for variable in variables if os.environ.get(variable)), None)
    if variable is None:
        return {}
    pairs = {}
    for number, member in enumerate(filter(None, map(str.strip, os.environ[variable].split(","))), 1):
        key, equals, value = member.partition("=")
        if not key.strip() or not equals:
            # The pair is not shown: it may be part of a password.
            raise ConfigError(
                f'{variable} is written "key=value,key=value", and its pair {number} has no key or no "="',
                setting=variable,
                origin=variable,
            )
        pairs[unquote(key.strip())] = unquote(value.strip())
    return pairs


def _checked(headers: Iterable[tuple[str, str]], setting: str) -> Pairs:
    checked = list(headers)
    for name, value in checked:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigError(
                f"{setting}: {name!r} cannot be sent: names are of letters, digits and -, values of one line of ASCII",
                setting=setting,
            )
        if name.lower() in _RESERVED_HEADERS:
            raise ConfigError(f"{setting}: {name} is set by Grete itself: leave it out", setting=setting)
    return checked
