"""What goes into a wheel beside the package."""

import json
import platform
from pathlib import Path

import pytest

import grete._native
from release.licenses import ROOT, linked_crates, third_party_licenses
from release.musl import symbols_of_python
from release.targets import TARGETS
from release.wheels import settle_sbom


def test_licences_are_those_of_linked_crates_alone() -> None:
    names = {crate["name"] for crate in linked_crates("x86_64-unknown-linux-gnu")}
    assert {"pyo3", "rustls", "ring", "zstd"} <= names
    assert not names & {"pyo3-macros", "syn", "cc", "pyo3-build-config", "loom", "grete-wire"}
    assert "windows-sys" not in names


def test_each_licence_text_appears_once() -> None:
    text = third_party_licenses("x86_64-unknown-linux-gnu")
    head, *texts = text.split(f"\n\n{'=' * 100}\n\n")
    assert "ring 0.17" in head
    bodies = [one.partition(":\n\n")[2] for one in texts]
    assert len(bodies) == len(set(bodies)) > 10


def test_an_sbom_has_nothing_of_its_build(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    bill = {
        "serialNumber": "urn:1",
        "metadata": {"timestamp": "now", "x": 1},
        "components": [f"path+{ROOT.as_uri()}/a"],
    }
    path.write_text(json.dumps(bill))
    settle_sbom(path)
    assert json.loads(path.read_text()) == {"metadata": {"x": 1}, "components": ["path+file:///grete/a"]}


def test_platforms_without_a_wheel_say_why() -> None:
    assert {name for name, target in TARGETS.items() if target.blocked} == {
        "macos-arm64",
        "macos-x86_64",
        "windows-x86_64",
    }


def test_each_wheel_of_linux_is_run_or_loaded_by_one_machine_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        run = [name for name, target in TARGETS.items() if target.runs_here]
        loaded = [name for name, target in TARGETS.items() if target.loads_here]
        assert (run, loaded) == ([f"manylinux-{machine}"], [f"musllinux-{machine}"])


def test_what_the_module_expects_of_an_interpreter() -> None:
    names = symbols_of_python(Path(grete._native.__file__))
    assert {"PyExc_ValueError", "PyObject_Call", "Py_IsInitialized"} & set(names)
    assert len(names) > 50
