"""A private Docker engine for a Debian machine without one and without an image registry.

The images that the stack builds upon are made from Debian's packages, and replace the official ones
by the variables of the compose file: this tests the compose file, the Dockerfile and the wiring, not
the official images. Needs root. Its files below `folder` are kept, so that the next start takes seconds.
"""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

BRIDGE = "antiphon0"
BRIDGE_ADDRESS = "10.231.0.1/24"
OTHER_NETWORKS = "base=10.232.0.0/16,size=24"

_PACKAGES = ("docker.io", "mmdebstrap", "iptables", "iproute2", "ca-certificates")
_COMMANDS = ("dockerd", "mmdebstrap", "iptables", "ip")
_INSIDE = "python3,python3-venv,python3-pip,ca-certificates,redis-server,caddy,prometheus"
_UNUSED = (
    *("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*"),
    *("/usr/share/javascript/*", "/usr/share/nodejs/*", "/usr/bin/promtool"),
)
"""Halves the size of the packages."""
_START_S = 180.0

_SETUP = r"""
cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/ca-certificates.crt"
printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' > "$1/etc/pip.conf"
rm -f "$1"/usr/lib/python3.*/EXTERNALLY-MANAGED
ln -sf /usr/bin/python3 "$1/usr/local/bin/python"
"""
"""This machine's certificates, and pip like in the official Python image."""

_PATH = "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_IMAGES = {
    "PYTHON_IMAGE": 'CMD ["python3"]',
    "REDIS_IMAGE": 'WORKDIR /data\nCMD ["redis-server"]',
    "CADDY_IMAGE": (
        "ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data\n"
        "RUN mkdir -p /data/caddy /config/caddy\n"
        'CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]'
    ),
    "PROMETHEUS_IMAGE": (
        "RUN install --directory --owner=nobody --group=nogroup /prometheus\n"
        "USER nobody\n"
        'ENTRYPOINT ["prometheus"]'
    ),
}
"""Images made from the one base, by the variable that names each."""


@contextlib.contextmanager
def private_engine(folder: Path) -> Iterator[dict[str, str]]:
    """Yields the environment in which `docker` and `docker compose` use this engine."""
    folder.mkdir(parents=True, exist_ok=True)
    # Debian keeps daemons here; not every PATH contains it.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    _install()
    config = folder / "config"
    _install_compose(folder, config / "cli-plugins")
    environment = {
        **os.environ,
        "DOCKER_HOST": f"unix://{folder}/docker.sock",
        "DOCKER_CONFIG": str(config),
    }
    with _bridge(), _daemon(folder, environment):
        yield environment | _make_images(folder, environment)


def _install() -> None:
    if all(shutil.which(command) for command in _COMMANDS):
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run("apt-get", "-qq", "update", env=quiet)
    options = ("-o", "DPkg::Lock::Timeout=300", "-qq", "-y", "--no-install-recommends")
    _run("apt-get", *options, "install", *_PACKAGES, env=quiet)


def _mirror() -> str:
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(SITE)", "Created-By: Packages"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = re.search(r"^bookworm (\S+)$", listed, re.MULTILINE)
    assert found, "apt has no mirror of Debian 12"
    return found[1]


def _install_compose(folder: Path, plugins: Path) -> None:
    """Compose v2 and buildx are in the next Debian release: unpacked, not installed."""
    if (plugins / "docker-compose").exists():
        return
    apt = folder / "apt"
    for part in ("lists/partial", "cache/archives/partial", "unpacked"):
        (apt / part).mkdir(parents=True, exist_ok=True)
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (apt / "sources.list").write_text(f"deb [signed-by={keyring}] {_mirror()} trixie main\n")
    settings = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    _run("apt-get", *options, "-qq", "update")
    _run("apt-get", *options, "-qq", "download", "docker-compose", "docker-buildx", cwd=apt)
    for package in apt.glob("*.deb"):
        _run("dpkg-deb", "-x", package, apt / "unpacked")
    plugins.mkdir(parents=True, exist_ok=True)
    for plugin in (apt / "unpacked/usr/libexec/docker/cli-plugins").iterdir():
        (plugins / plugin.name).symlink_to(plugin)


@contextlib.contextmanager
def _bridge() -> Iterator[None]:
    subprocess.run(["ip", "link", "delete", BRIDGE], stderr=subprocess.DEVNULL)
    _run("ip", "link", "add", BRIDGE, "type", "bridge")
    try:
        _run("ip", "address", "add", BRIDGE_ADDRESS, "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        yield
    finally:
        _run("ip", "link", "delete", BRIDGE)


@contextlib.contextmanager
def _daemon(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    log, pid_file = folder / "dockerd.log", folder / "dockerd.pid"
    _forget_killed_daemon(pid_file)
    command: list[str | Path] = ["dockerd", "--host", environment["DOCKER_HOST"]]
    command += ["--data-root", folder / "data", "--exec-root", folder / "exec"]
    command += ["--pidfile", pid_file, "--bridge", BRIDGE]
    command += ["--default-address-pool", OTHER_NETWORKS, "--oom-score-adjust", "0"]
    with log.open("wb") as output:
        daemon = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + _START_S
        while subprocess.run(
            ["docker", "version"], env=environment, capture_output=True
        ).returncode:
            assert daemon.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.3)
        yield
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(timeout=180)


def _forget_killed_daemon(pid_file: Path) -> None:
    """It leaves its file, and another process may have its number: then dockerd does not start."""
    with contextlib.suppress(FileNotFoundError, psutil.NoSuchProcess):
        if psutil.Process(int(pid_file.read_text())).name() != "dockerd":
            pid_file.unlink()


def _make_images(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """The variables of the compose file that name the images."""
    recipe = f"{_INSIDE}\n{_UNUSED}\n{_SETUP}\n{_PATH}"
    base = f"antiphon-stand-in:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    fresh = not _has_image(base, environment)
    if fresh:
        _import_base(folder / "base.tar", base, environment)
    names = {}
    for variable, instructions in _IMAGES.items():
        name = names[variable] = f"stand-in-{variable.removesuffix('_IMAGE').lower()}"
        if fresh or not _has_image(name, environment):
            command = ["docker", "build", "--quiet", "--tag", name, "-"]
            _run(*command, env=environment, given=f"FROM {base}\n{instructions}\n")
    return names


def _has_image(name: str, environment: dict[str, str]) -> bool:
    command = ["docker", "image", "inspect", name]
    return not subprocess.run(command, env=environment, capture_output=True).returncode


def _import_base(archive: Path, name: str, environment: dict[str, str]) -> None:
    _run(
        *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={_INSIDE}"),
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={path}" for path in _UNUSED),
        *(f"--customize-hook={_SETUP}", "bookworm", archive, _mirror()),
    )
    _run("docker", "import", f"--change={_PATH}", archive, name, env=environment)
    archive.unlink()


def _run(
    *command: str | Path,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    given: str | None = None,
) -> None:
    done = subprocess.run(command, env=env, cwd=cwd, input=given, capture_output=True, text=True)
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout[-1500:]}{done.stderr[-1500:]}"
