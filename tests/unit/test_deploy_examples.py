"""Examples of a deployment: they agree with the settings, the probes and the metrics that they name."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from grete import _units
from grete._config.registry import SETTINGS

DEPLOY = Path(__file__).resolve().parents[2] / "examples" / "deploy"


def documents() -> dict[str, Any]:
    with (DEPLOY / "kubernetes.yaml").open() as file:
        return {document["kind"]: document for document in yaml.safe_load_all(file)}


def shutdown_timeout() -> float:
    """Returns the default in seconds."""
    return _units.seconds(str(SETTINGS["shutdown_timeout"].default))


def test_the_pod_is_reachable_for_its_probes_and_stops_in_time() -> None:
    pod = documents()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["args"][-2:] == ["--probes", "*:8080"]
    assert container["ports"] == [{"name": "probes", "containerPort": 8080}]
    for probe, path in [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]:
        assert container[probe]["httpGet"] == {"path": path, "port": "probes"}
    assert pod["terminationGracePeriodSeconds"] > shutdown_timeout()


def test_all_objects_select_the_same_pods() -> None:
    found = documents()
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for kind in ("Deployment", "PodDisruptionBudget", "PodMonitor"):
        assert found[kind]["spec"]["selector"]["matchLabels"] == labels
    assert found["ScaledObject"]["spec"]["scaleTargetRef"]["name"] == found["Deployment"]["metadata"]["name"]


def test_autoscaling_asks_for_a_metric_that_exists() -> None:
    (trigger,) = documents()["ScaledObject"]["spec"]["triggers"]
    (name,) = re.findall(r"grete_\w+", trigger["metadata"]["query"])
    assert f"| `{name}` |" in (DEPLOY.parents[1] / "docs" / "metrics.md").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_the_unit_is_valid(tmp_path: Path) -> None:
    unit = tmp_path / "grete.service"
    text = (DEPLOY / "grete.service").read_text()
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_unit_waits_for_a_clean_stop() -> None:
    text = (DEPLOY / "grete.service").read_text()
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)s$", text, flags=re.MULTILINE)
    assert int(seconds) > shutdown_timeout()


def test_images_start_grete_as_process_1() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert [line for line in text.splitlines() if line.startswith(("ENTRYPOINT", "CMD")) and "[" not in line] == []
    assert text.count('"--probes", "*:8080"') == 2


@pytest.mark.parametrize("name", ["kubernetes.yaml", "grete.service"])
def test_variables_are_settings(name: str) -> None:
    variables = re.findall(r"GRETE_[A-Z_]+", (DEPLOY / name).read_text())
    assert variables
    for variable in variables:
        assert variable.startswith("GRETE_KAFKA_") or variable.removeprefix("GRETE_").lower() in SETTINGS
