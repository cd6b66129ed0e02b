"""Tokens of clouds, from their vendors' libraries: AWS MSK IAM, Azure Event Hubs, Google Cloud."""

import importlib
import re
from collections.abc import Callable
from typing import Any

from grete.errors import ConfigError

# kafka.us-east-1.amazonaws.com, and kafka-serverless.eu-west-1.amazonaws.com.
_AWS_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


def source_of(preset: str, fields: dict[str, Any]) -> tuple[str, Callable[[], object]]:
    """Returns the name of the source and the function that fetches a token. Raises ConfigError."""
    return {"aws_msk_iam": _aws, "azure": _azure, "gcp": _gcp}[preset](fields)


def _library(module: str, mechanism: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(
            f"sasl.mechanism={mechanism} needs a library of the cloud: pip install 'grete[{extra}]'",
            setting="sasl.mechanism",
        ) from None


def _aws(fields: dict[str, Any]) -> tuple[str, Callable[[], object]]:
    region = _AWS_REGION.search(fields["host"] or "")
    if region is None:
        raise ConfigError(
            "sasl.mechanism=AWS_MSK_IAM reads the region from the address of a broker of Amazon MSK, and "
            "bootstrap.servers has none: for another name of the broker, give sasl.mechanism=OAUTHBEARER and "
            "sasl.oauthbearer.token.provider",
            setting="bootstrap.servers",
        )
    signer = _library("aws_msk_iam_sasl_signer", "AWS_MSK_IAM", "aws")
    return "AWS IAM", lambda: signer.MSKAuthTokenProvider.generate_auth_token(region.group(1))


def _azure(fields: dict[str, Any]) -> tuple[str, Callable[[], object]]:
    identity = _library("azure.identity", "AZURE", "azure")
    scope = fields["scope"] or f"https://{fields['host']}/.default"
    credential = identity.DefaultAzureCredential()
    return "Azure's default credential", lambda: credential.get_token(scope)


def _gcp(fields: dict[str, Any]) -> tuple[str, Callable[[], object]]:
    auth = _library("google.auth", "GCP", "gcp")
    transport = _library("google.auth.transport.requests", "GCP", "gcp")
    credentials, _ = auth.default(scopes=[fields["scope"] or "https://www.googleapis.com/auth/cloud-platform"])

    def fetch() -> object:
        credentials.refresh(transport.Request())
        expiry = credentials.expiry  # a datetime of UTC without a time zone
        from datetime import UTC

        return _google_token(credentials, expiry.replace(tzinfo=UTC).timestamp())

    return "Google's application default credentials", fetch


def _google_token(credentials: Any, expires_at: float) -> tuple[str, float]:
    """Returns the token as Google's brokers want it: a JSON web token whose signature is the access token."""
    import base64
    import json
    import time

    def encode(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    subject = getattr(credentials, "service_account_email", "")
    header = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
    claims = {"exp": expires_at, "iss": "Google", "iat": time.time(), "scope": "kafka", "sub": subject}
    parts = [encode(json.dumps(header)), encode(json.dumps(claims)), encode(credentials.token)]
    return ".".join(parts), expires_at
