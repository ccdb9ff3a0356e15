"""What images contain: other images by version and digest, and packages with the hashes of uv.lock."""

import json
import re

import yaml

from support.dashboards import DEPLOY, ROOT

PINNED = re.compile(r"[a-z0-9./-]+:v?\d+\.\d+\.\d+(-[a-z0-9.-]+)?@sha256:[0-9a-f]{64}")
VARIABLE = re.compile(r"\$\{(\w+):-(.+)\}")
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
VALUES = DEPLOY / "helm" / "antiphon" / "values.yaml"


def dockerfile_images() -> dict[str, str]:
    """The images that stages begin with, by the argument that names each."""
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", DOCKERFILE, re.MULTILINE))
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, re.MULTILINE)
    assert len(stages) == len(re.findall(r"^FROM ", DOCKERFILE, re.MULTILINE))
    bases = {base for base, _ in stages} - {name for _, name in stages}
    return {name: arguments[name] for name in (base.strip("${}") for base in bases)}


def compose_images() -> dict[str, str]:
    """The default of each variable that names an image."""
    services = COMPOSE["services"].values()
    images = {service["image"] for service in services if "build" not in service}
    found = [VARIABLE.fullmatch(image) for image in images]
    assert all(found), f"an image has no variable: {images}"
    return {match[1]: match[2] for match in found if match}


def chart_images() -> list[str]:
    """Those of others. Antiphon's own have no digest: they are built here."""
    return re.findall(r"^\s+image: (\S+)$", VALUES.read_text(), re.MULTILINE)


def test_images_have_a_version_and_a_digest() -> None:
    images = [*dockerfile_images().values(), *compose_images().values(), *chart_images()]
    assert len(images) == 6
    for image in images:
        assert PINNED.fullmatch(image), image


def test_compose_and_kubernetes_use_the_same_redis() -> None:
    assert chart_images() == [compose_images()["REDIS_IMAGE"]]


def test_the_image_of_python_can_be_replaced_like_the_others() -> None:
    builds = [service["build"] for service in COMPOSE["services"].values() if "build" in service]
    assert builds
    assert all(build["args"] == list(dockerfile_images()) for build in builds)


def test_images_install_the_packages_of_the_lock_and_check_that_none_is_missing() -> None:
    instructions = DOCKERFILE.replace("\\\n", "")
    installs = re.findall(r"uv_program.py pip (\w+) ([^\n]+)", instructions)
    locked = [words for command, words in installs if command == "sync"]
    own = [words for command, words in installs if command == "install"]
    assert len(locked) == len(own) == 3
    assert all("--require-hashes" in words for words in locked)
    # Without an index, a dependency of Antiphon that is not installed yet fails the build.
    assert all("--no-index" in words and "antiphon[server" in words for words in own)
    assert "--no-deps" not in instructions


def test_renovate_reads_every_file_with_images() -> None:
    settings = json.loads((ROOT / ".github" / "renovate.json").read_text())
    assert {"dockerfile", "docker-compose", "helm-values"} == set(settings["enabledManagers"])
    (pattern,) = settings["helm-values"]["managerFilePatterns"]
    assert re.search(pattern.strip("/"), str(VALUES.relative_to(ROOT)))
