"""`deploy/backup.sh` and `restore.sh` on a live Redis: of a host, and of a release of the chart."""

import os
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from redis import Redis
from support.dashboards import DEPLOY
from support.redis_server import RedisServer, redis_cli

pytestmark = pytest.mark.extended

KUBECTL = '''#!{python} -IS
"""Runs what would be run in a pod, with the folders of its volumes. Writes down the other commands."""
import os, sys
volumes = {volumes}
words = sys.argv[1:]
assert words[:2] == ["--namespace", "voice"], words
if words[2] == "exec":
    command = words[words.index("--") + 1 :]
    pod = next(name for name in volumes if any(name in word for word in words[: words.index("--")]))
    for path, folder in volumes[pod].items():
        command = [word.replace(path, folder) for word in command]
    os.execvp(command[0], command)
with open("{calls}", "a") as calls:
    calls.write(" ".join(words[2:]) + "\\n")
if words[2] == "get":
    print("shared" if "claimName" in words[-1] else "redis:7" if "image" in words[-1] else 2, end="")
if words[2] == "apply":
    open("{pod}", "w").write(sys.stdin.read())
'''


PASSWORD = "the-password-of-redis"


@dataclass
class Place:
    """The data of a system that runs, and what the scripts find on PATH."""

    folder: Path
    redis: RedisServer

    @property
    def redis_data(self) -> Path:
        return self.folder / "redis"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def backup(self) -> Path:
        return self.folder / "backup"

    def client(self) -> Redis:
        return Redis(port=self.redis.port, decode_responses=True)

    @property
    def environment(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {"PATH": path, "REDIS_CLI": str(self.folder / "bin" / "redis-cli")}

    def command(self, script: str, *words: str) -> list[str]:
        return [str(DEPLOY / script), str(self.backup), *words]

    def run(self, script: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(script, *words), capture_output=True, text=True, env=self.environment
        )

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture(params=[True])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with RedisServer(tmp_path / "redis", aof=request.param) as server:
        place = Place(tmp_path, server)
        place.program("redis-cli", f'#!/bin/sh\nexec {redis_cli()} -p {server.port} "$@"\n')
        recording = place.data / "sessions" / "r1"
        recording.mkdir(parents=True)
        (recording / "meta.json").write_text('{"state": "complete"}')
        (place.data / "secret").write_text("of the services")
        yield place


@contextmanager
def writing(place: Place) -> Iterator[None]:
    """Writes all the time, as running sessions do."""
    over = threading.Event()

    def write() -> None:
        with place.client() as client:
            number = 0
            while not over.is_set():
                client.set("number", number := number + 1)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def unpack(archive: Path, folder: Path) -> Path:
    folder.mkdir()
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


def test_the_backup_of_a_live_host_starts_another_redis(place: Place) -> None:
    with place.client() as client:
        client.set("kept", "yes")
        client.config_set("auto-aof-rewrite-percentage", 70)
        with writing(place):
            done = place.run("backup.sh", "--host", str(place.redis_data), str(place.data))
        assert done.returncode == 0, done.stderr
        assert client.config_get("auto-aof-rewrite-percentage").popitem()[1] == "70"
    assert {path.name for path in place.backup.iterdir()} == {"redis.tar", "recordings.tar"}
    assert place.backup.stat().st_mode & 0o077 == 0
    unpack(place.backup / "redis.tar", place.folder / "restored")
    with (
        RedisServer(place.folder / "restored", aof=True) as again,
        Redis(port=again.port, decode_responses=True) as client,
    ):
        assert client.get("kept") == "yes"
        assert int(client.get("number") or 0) > 0
    restored = unpack(place.backup / "recordings.tar", place.folder / "data-2")
    assert (restored / "sessions" / "r1" / "meta.json").read_text() == '{"state": "complete"}'
    assert not (restored / "secret").exists()


@pytest.mark.parametrize("place", [False], indirect=True)
def test_a_redis_without_a_file_is_refused(place: Place) -> None:
    done = place.run("backup.sh", "--host", str(place.folder), str(place.data))
    assert done.returncode == 1
    assert "appendonly yes" in done.stderr
    assert not list(place.backup.glob("*.tar"))


def test_a_backup_that_is_cancelled_lets_redis_rewrite_its_file(place: Place) -> None:
    """It waits for a rewrite that never ends."""
    busy = "echo aof_enabled:1; echo aof_rewrite_in_progress:1"
    real = f"{redis_cli()} -p {place.redis.port}"
    text = f'#!/bin/sh\n[ "$2" = info ] && {{ {busy}; exit; }}\nexec {real} "$@"\n'
    place.program("redis-cli", text)
    with place.client() as client:
        client.config_set("auto-aof-rewrite-percentage", 70)
        words = place.command("backup.sh", "--host", str(place.redis_data), str(place.data))
        with subprocess.Popen(words, env=place.environment) as backup:
            while client.config_get("auto-aof-rewrite-percentage").popitem()[1] != "0":
                assert backup.poll() is None
                time.sleep(0.05)
            backup.terminate()
        assert backup.returncode == 130
        assert client.config_get("auto-aof-rewrite-percentage").popitem()[1] == "70"


def test_a_copy_that_breaks_off_replaces_no_backup(place: Place) -> None:
    """`kubectl` has status 1 for its own errors, as tar has for a file that changed."""
    cluster(place, place.redis_data, place.data)
    kubectl = place.folder / "bin" / "kubectl"
    kubectl.rename(kubectl.with_name("whole"))
    place.program(
        "kubectl", '#!/bin/sh\n[ "$4" = deployment/voice-recorder ] && exit 1\nexec whole "$@"\n'
    )
    place.backup.mkdir()
    (place.backup / "recordings.tar").write_text("of yesterday")
    with place.client() as client:
        client.config_set("requirepass", PASSWORD)
        done = place.run("backup.sh", "--kubernetes", "voice", "voice")
        client.config_set("requirepass", "")
    assert done.returncode == 1
    assert (place.backup / "recordings.tar").read_text() == "of yesterday"


def test_a_truncated_backup_is_not_restored(place: Place) -> None:
    calls = cluster(place, place.redis_data, place.data)
    place.backup.mkdir()
    for name in ("redis.tar", "recordings.tar"):
        with tarfile.open(place.backup / name, "w") as tar:
            tar.add(place.data / "secret")
    whole = place.backup / "recordings.tar"
    whole.write_bytes(whole.read_bytes()[:600])
    done = place.run("restore.sh", "--kubernetes", "voice", "voice")
    assert done.returncode != 0
    assert "recordings.tar" in done.stderr
    assert not calls.exists()


@pytest.mark.parametrize("script", ["backup.sh", "restore.sh"])
def test_another_place_is_refused(place: Place, script: str) -> None:
    place.backup.mkdir()
    for name in ("redis.tar", "recordings.tar"):
        with tarfile.open(place.backup / name, "w") as tar:
            tar.add(place.data / "secret")
    done = place.run(script, "--moon", "a", "b")
    assert done.returncode == 2
    assert "--moon" in done.stderr


def cluster(place: Place, redis: Path, recordings: Path) -> Path:
    """A `kubectl` whose pods have these volumes; returns the file with its other commands."""
    secrets, calls = place.folder / "secrets", place.folder / "calls"
    secrets.mkdir(exist_ok=True)
    (secrets / "redis_password").write_text(PASSWORD)
    volumes = {
        "voice-redis-0": {"/data": str(redis), "/run/antiphon": str(secrets)},
        "voice-recorder": {"/data": str(recordings)},
        "voice-restore": {"/redis": str(redis), "/data": str(recordings)},
    }
    text = KUBECTL.format(
        python=sys.executable, volumes=volumes, calls=calls, pod=place.folder / "pod.yaml"
    )
    place.program("kubectl", text)
    return calls


def test_a_release_is_saved_and_restored(place: Place) -> None:
    cluster(place, place.redis_data, place.data)
    with place.client() as client:
        client.set("kept", "yes")
        client.config_set("requirepass", PASSWORD)  # open connections stay logged in
        done = place.run("backup.sh", "--kubernetes", "voice", "voice")
        client.config_set("requirepass", "")
    assert done.returncode == 0, done.stderr
    redis, recordings = place.folder / "redis-2", place.folder / "data-2"
    for volume in (redis, recordings):
        (volume / "lost+found").mkdir(parents=True)
        (volume / "old").write_text("of before")
    calls = cluster(place, redis, recordings)
    done = place.run("restore.sh", "--kubernetes", "voice", "voice")
    assert done.returncode == 0, done.stderr
    assert not list(place.folder.glob("*-2/old"))
    assert (recordings / "lost+found").is_dir()
    assert (recordings / "sessions" / "r1" / "meta.json").exists()
    with (
        RedisServer(redis, aof=True) as again,
        Redis(port=again.port, decode_responses=True) as client,
    ):
        assert client.get("kept") == "yes"
    scaled = [
        line.split()[1:] for line in calls.read_text().splitlines() if line.startswith("scale")
    ]
    services = {f"deployment/voice-{name}" for name in ("edge", "worker", "recorder", "cleanup")}
    half = len(scaled) // 2
    assert {target for _, target in scaled[:half]} == services | {"statefulset/voice-redis"}
    assert {count for count, _ in scaled[:half]} == {"--replicas=0"}
    assert scaled[half] == ["--replicas=1", "statefulset/voice-redis"]
    assert {(count, target) for count, target in scaled[half + 1 :]} == {
        ("--replicas=2", service) for service in services
    }
    pod = yaml.safe_load((place.folder / "pod.yaml").read_text())
    assert pod["metadata"]["name"] == "voice-restore"
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(pod, "1.36", strict=True)
    claims = [one["persistentVolumeClaim"]["claimName"] for one in pod["spec"]["volumes"]]
    assert claims == ["redis-voice-redis-0", "shared"]
