"""What the scripts in deploy/ do when something fails. Docker, kubectl and redis-cli are stand-ins."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from support.dashboards import DEPLOY, ROOT

DOCKER = '''#!{python} -IS
"""Containers in a file. A service has two; those that `up` starts have the health in `next`."""
import json, pathlib, sys, time
folder = pathlib.Path("{folder}")
file = folder / "containers.json"
all_of_them = json.loads(file.read_text())
words = sys.argv[1:]
with (folder / "calls").open("a") as calls:
    calls.write(" ".join(words) + "\\n")

def save():
    file.write_text(json.dumps(all_of_them))

def start(service, count, names=iter(range(10**6))):
    health = (folder / "next").read_text()
    while sum(one["service"] == service and not one["run"] for one in all_of_them.values()) < count:
        name = next(f"n{{n}}" for n in names if f"n{{n}}" not in all_of_them)
        all_of_them[name] = {{"service": service, "state": "running", "health": health, "run": False}}
    save()

def pause_once(step):
    if (folder / step).exists():
        (folder / step).unlink()
        (folder / "reached").touch()
        time.sleep(60)

if words[0] == "compose":
    words = words[1:]
    service = words[-1]
    if words[:2] == ["config", "--services"]:
        print("edge\\nredis")
    elif words[:2] == ["ps", "--services"]:
        print("\\n".join({{one["service"] for one in all_of_them.values()}}))
    elif words[0] == "ps":
        every = "--all" in words
        for name, one in all_of_them.items():
            shown = one["state"] in ("running", "restarting") and not one["run"]
            if one["service"] == service and (every or shown):
                print(name)
    elif words[0] == "up" and service != "secrets":
        if "--scale" in words:
            start(service, int(words[words.index("--scale") + 1].split("=")[1]))
        elif "--no-recreate" not in words:
            for name in [n for n, one in all_of_them.items() if one["service"] == service]:
                del all_of_them[name]
            start(service, 2)
        pause_once("pause up")
        if any(one["health"] == "unhealthy" for one in all_of_them.values() if one["service"] == service):
            sys.exit("unhealthy")
elif words[0] == "inspect":
    for name in words[3:]:
        one = all_of_them[name]
        if "PortBindings" in words[2]:
            print(0)
        else:
            print("" if one["run"] else f"{{one['state']}} {{one['health']}} {{name}}")
elif words[0] == "stop":
    pause_once("pause stop")
elif words[0] == "rm":
    for name in words[1:]:
        del all_of_them[name]
    save()
elif words[0] == "logs":
    print(f"the log of {{words[-1]}}")
'''

KUBECTL = """#!/bin/sh
echo "$*" >> "{folder}/calls"
case "$*" in
*jsonpath=*replicas*) cat "{folder}/replicas" ;;
*" get "*) echo of-the-cluster ;;
*" scale --replicas=0 statefulset/"*) exit 1 ;;
esac
"""

REDIS_CLI = """#!/bin/sh
echo "$*" >> "{folder}/calls"
[ "$1" = -e ] && shift && failure=1
case "$*" in
"info persistence")
    [ -e "{folder}/secured" ] && {{ echo "NOAUTH Authentication required."; exit ${{failure:-0}}; }}
    printf "loading:0\\r\\naof_enabled:1\\r\\naof_rewrite_in_progress:0\\r\\naof_rewrite_scheduled:0\\r\\n" ;;
"config get"*) [ -s "{folder}/percentage" ] || exit 0; echo "$3"; cat "{folder}/percentage" ;;
"config set"*)
    [ -e "{folder}/reader" ] && {{ echo "NOPERM no right to CONFIG"; exit ${{failure:-0}}; }}
    echo "$4" > "{folder}/percentage" ;;
esac
"""


@dataclass
class Machine:
    """A folder with the programs and with what they write down."""

    folder: Path

    def program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(folder=self.folder, python=sys.executable))
        path.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def start(self, script: str, *words: str) -> subprocess.Popen[str]:
        """The script in a group of its own, which gets the signals of a terminal."""
        return subprocess.Popen(
            [DEPLOY / script, *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, script: str, *words: str) -> tuple[int, str]:
        with self.start(script, *words) as process:
            output = process.communicate()[0]
        return process.returncode, output

    def calls(self) -> list[str]:
        calls = self.folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []

    def wait_for(self, name: str) -> None:
        deadline = time.monotonic() + 30
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline, name
            time.sleep(0.01)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@dataclass
class Engine(Machine):
    """A machine with Docker."""

    def set(self, **containers: str) -> None:
        """Each is a service, a state, a health, and `run` if `docker compose run` started it."""
        its = {}
        for name, text in containers.items():
            service, state, health, *run = text.split()
            its[name] = {"service": service, "state": state, "health": health, "run": bool(run)}
        (self.folder / "containers.json").write_text(json.dumps(its))

    def next(self, health: str) -> None:
        (self.folder / "next").write_text(health)

    def containers(self) -> dict[str, str]:
        """The health of each."""
        its = json.loads((self.folder / "containers.json").read_text())
        return {name: one["health"] for name, one in its.items()}

    def interrupt(self, step: str) -> tuple[int, str]:
        """A Ctrl-C during this step of an update."""
        (self.folder / f"pause {step}").touch()
        with self.start("update.sh", "edge") as process:
            self.wait_for("reached")
            os.killpg(process.pid, signal.SIGINT)
            output = process.communicate()[0]
        return process.returncode, output


OLD = {"a": "edge running healthy", "b": "edge running healthy"}


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(tmp_path)
    engine.program("docker", DOCKER)
    engine.set(**OLD)
    engine.next("healthy")
    return engine


def test_an_update_replaces_containers(engine: Engine) -> None:
    code, output = engine.run("update.sh", "edge")
    assert code == 0, output
    assert engine.containers() == {"n0": "healthy", "n1": "healthy"}


def test_an_update_that_fails_shows_why_and_leaves_the_old_containers(engine: Engine) -> None:
    for _ in range(2):
        engine.next("unhealthy")
        code, output = engine.run("update.sh", "edge")
        assert code == 1
        assert "the log of n1" in output
        assert engine.containers() == {"a": "healthy", "b": "healthy"}
    engine.next("healthy")
    assert engine.run("update.sh", "edge")[0] == 0
    assert engine.containers() == {"n0": "healthy", "n1": "healthy"}


def test_an_update_that_is_interrupted_keeps_the_number_of_containers(engine: Engine) -> None:
    code, output = engine.interrupt("up")
    assert code == 130, output
    assert engine.containers() == {"a": "healthy", "b": "healthy"}
    (engine.folder / "reached").unlink()
    code, output = engine.interrupt("stop")
    assert code == 130, output
    assert engine.containers() == {"n0": "healthy", "n1": "healthy"}


def test_an_update_removes_what_one_that_was_killed_left(engine: Engine) -> None:
    left = {"x": "running unhealthy", "y": "restarting unhealthy", "z": "created starting"}
    left = {name: f"edge {text}" for name, text in left.items()}
    engine.set(**OLD, **left, other="edge running starting run")
    code, output = engine.run("update.sh", "edge")
    assert code == 0, output
    assert engine.containers() == {"other": "starting", "n0": "healthy", "n1": "healthy"}
    assert "x y z" in output


def test_a_service_without_a_healthy_container_is_replaced_in_place(engine: Engine) -> None:
    engine.set(a="edge running unhealthy", b="edge restarting unhealthy")
    code, output = engine.run("update.sh", "edge")
    assert code == 0, output
    assert engine.containers() == {"n0": "healthy", "n1": "healthy"}


def test_a_stopped_service_is_not_started(engine: Engine) -> None:
    engine.set(a="edge exited unhealthy")
    assert engine.run("update.sh", "edge")[0] == 0
    assert engine.containers() == {"a": "unhealthy"}


def archives(folder: Path) -> str:
    for name in ("redis.tar", "recordings.tar"):
        subprocess.run(["tar", "-cf", folder / name, "-T", "/dev/null"], check=True)
    return str(folder)


def test_a_restore_stops_nothing_while_services_of_another_profile_run(engine: Engine) -> None:
    engine.set(**OLD, r="redis-2 running healthy")
    code, output = engine.run("restore.sh", archives(engine.folder))
    assert code == 1
    assert "redis-2" in output
    assert "COMPOSE_PROFILES" in output
    assert not [call for call in engine.calls() if "ps" not in call and "config" not in call]


def test_a_restore_of_the_services_of_the_profile_replaces_the_volumes(engine: Engine) -> None:
    code, output = engine.run("restore.sh", archives(engine.folder))
    assert code == 0, output
    assert any(call.startswith("compose stop") for call in engine.calls())
    assert sum(call.startswith("compose run") for call in engine.calls()) == 2


def test_a_restore_prints_how_to_start_the_pods_before_it_stops_one(machine: Machine) -> None:
    machine.program("kubectl", KUBECTL)
    (machine.folder / "replicas").write_text("3")
    folder = archives(machine.folder)
    code, output = machine.run("restore.sh", folder, "--kubernetes", "voice", "calls")
    assert code == 1
    services = ("recorder", "cleanup", "worker", "edge")
    scale = "kubectl --namespace voice scale --replicas="
    hint = [f"{scale}1 statefulset/calls-redis"]
    hint += [f"{scale}3 deployment/calls-{service}" for service in services]
    assert " && ".join(hint) in output
    verbs = [call.split()[2] for call in machine.calls()]
    assert verbs == sorted(verbs, key=["get", "scale"].index)


def test_a_second_restore_does_not_start_zero_pods(machine: Machine) -> None:
    machine.program("kubectl", KUBECTL)
    (machine.folder / "replicas").write_text("0")
    folder = archives(machine.folder)
    code, output = machine.run("restore.sh", folder, "--kubernetes", "voice", "calls")
    assert code == 1
    assert "0 replicas" in output
    assert "--namespace voice" in output
    assert not [call for call in machine.calls() if "scale" in call.split()]


@pytest.fixture
def host(machine: Machine) -> Machine:
    """A host with Redis, without containers."""
    machine.program("redis-cli", REDIS_CLI)
    (machine.folder / "redis").mkdir()
    (machine.folder / "data" / "sessions").mkdir(parents=True)
    (machine.folder / "percentage").write_text("70\n")
    return machine


def backup(host: Machine) -> tuple[int, str]:
    to, redis, data = (str(host.folder / name) for name in ("backup", "redis", "data"))
    return host.run("backup.sh", to, "--host", redis, data)


def percentage(host: Machine) -> str:
    return (host.folder / "percentage").read_text().strip()


@pytest.mark.parametrize("refusal", ["secured", "reader"])
def test_a_backup_fails_if_redis_refuses_a_command(host: Machine, refusal: str) -> None:
    (host.folder / refusal).touch()
    code, output = backup(host)
    assert code != 0, output
    assert not list((host.folder / "backup").iterdir())


@pytest.mark.parametrize("text", ["", "often\n"])
def test_a_backup_needs_the_setting_of_redis(host: Machine, text: str) -> None:
    (host.folder / "percentage").write_text(text)
    code, output = backup(host)
    assert code == 1
    assert "auto-aof-rewrite-percentage" in output
    assert not list((host.folder / "backup").iterdir())


def test_a_backup_needs_to_know_that_there_is_a_file(host: Machine) -> None:
    host.program("redis-cli", "#!/bin/sh\necho redis_version:7\n")
    code, output = backup(host)
    assert code == 1
    assert "appendonly yes" in output


def test_a_backup_sets_what_a_killed_one_left(host: Machine) -> None:
    assert backup(host)[0] == 0
    assert percentage(host) == "70"
    (host.folder / "percentage").write_text("0\n")
    code, output = backup(host)
    assert code == 0, output
    assert percentage(host) == "100"
    assert "auto-aof-rewrite-percentage" in output


def test_a_backup_waits_for_another_one(host: Machine) -> None:
    real = host.folder / "bin" / "redis-cli"
    real.rename(real.with_name("quick-redis-cli"))
    host.program(
        "redis-cli",
        "#!/bin/sh\n"
        'if [ "$2" = config ] && [ "$3" = set ] && [ "$5" = 0 ]; then\n'
        '    touch "{folder}/reached"\n'
        '    until [ -e "{folder}/go" ]; do sleep 0.05; done\n'
        "fi\n"
        'exec quick-redis-cli "$@"\n',
    )
    words = ("--host", str(host.folder / "redis"), str(host.folder / "data"))
    with host.start("backup.sh", str(host.folder / "one"), *words) as first:
        host.wait_for("reached")
        with host.start("backup.sh", str(host.folder / "two"), *words) as second:
            assert second.stdout is not None
            assert "another backup" in second.stdout.readline()
            (host.folder / "go").touch()
            assert second.wait() == 0
        assert first.wait() == 0
    assert percentage(host) == "70"


@pytest.mark.parametrize(
    ("info", "healthy"),
    [
        ("loading:0 role:master", True),
        ("loading:1 async_loading:0 role:master", False),
        ("loading:0 role:slave master_link_status:up", True),
        ("loading:0 role:slave master_link_status:down", False),
        ("-NOAUTH", False),
    ],
)
def test_redis_is_healthy_once_it_has_loaded_its_file(
    machine: Machine, info: str, healthy: bool
) -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    check = compose["services"]["redis"]["healthcheck"]["test"]
    assert check[0] == "CMD-SHELL"
    lines = "\\r\\n".join(info.split())
    machine.program("redis-cli", f"#!/bin/sh\nprintf '# Server\\r\\n{lines}\\r\\n'\n")
    done = subprocess.run(
        ["sh", "-c", check[1].replace("$$", "$")], env=machine.environment, capture_output=True
    )
    assert (done.returncode == 0) is healthy
