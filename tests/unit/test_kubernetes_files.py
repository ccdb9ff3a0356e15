"""The manifests in deploy/kubernetes fit the schemas, the settings and each other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cli.settings import setting_names
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings
from support.dashboards import DEPLOY, ROOT

FOLDER = DEPLOY / "kubernetes"
KUBERNETES = ("1.29", "1.32", "1.36")
COMPONENTS = ("redis", "keda", "gpu")
PORTS = {
    "edge": EdgeSettings.model_fields["port"].default,
    "worker": WorkerSettings.model_fields["health_port"].default,
    "recorder": RecorderSettings.model_fields["recorder_health_port"].default,
    "cleanup": CleanupSettings.model_fields["cleanup_health_port"].default,
    "redis": 6379,
}


def fields(required: tuple[str, ...], **properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


NUMBER = {"type": "integer", "minimum": 0}
SCALED_OBJECT = fields(
    ("scaleTargetRef", "triggers"),
    scaleTargetRef=fields(("name",), name={"type": "string"}),
    minReplicaCount=NUMBER,
    maxReplicaCount=NUMBER,
    cooldownPeriod=NUMBER,
    fallback=fields(
        ("failureThreshold", "replicas"),
        failureThreshold=NUMBER,
        replicas=NUMBER,
        behavior={"enum": ["static", "currentReplicas", "currentReplicasIfHigher"]},
    ),
    advanced=fields(
        (),
        horizontalPodAutoscalerConfig=fields(
            (), behavior=fields((), scaleDown=fields((), stabilizationWindowSeconds=NUMBER))
        ),
    ),
    triggers={
        "type": "array",
        "items": fields(
            ("type", "metadata"),
            type={"const": "prometheus"},
            metadata={
                "required": ["serverAddress", "query", "threshold"],
                "additionalProperties": {"type": "string"},
            },
        ),
    },
)
"""The fields of KEDA's ScaledObject (keda.sh/v1alpha1, KEDA 2.17 or newer) that the manifest may use.

No package has the schema of the whole object.
"""


def documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


def rendered(folder: Path, *components: str) -> list[dict[str, Any]]:
    """What `kubectl apply -k` sends for an installation with these components."""
    own = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    own["resources"] = [os.path.relpath(FOLDER / "base", folder)]
    own["components"] = [os.path.relpath(FOLDER / name, folder) for name in components]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(own))
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


def files() -> list[dict[str, Any]]:
    """The objects in the files. The GPU worker is left out: its file is a patch."""
    paths = [path for path in FOLDER.rglob("*.yaml") if path.name != "kustomization.yaml"]
    return [
        each
        for path in paths
        if path != FOLDER / "gpu" / "worker.yaml"
        for each in documents(path.read_text())
    ]


@pytest.fixture(scope="module", params=["files", "redis", "all"])
def manifests(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    if request.param == "files":
        return files()
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    components = COMPONENTS if request.param == "all" else ("redis",)
    return rendered(tmp_path_factory.mktemp("installation"), *components)


def of_kind(manifests: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    found = [each for each in manifests if each["kind"] in kinds]
    assert found
    return found


def workloads(manifests: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Name, pod and container of each."""
    for each in of_kind(manifests, "Deployment", "StatefulSet"):
        pod = each["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        yield each["metadata"]["name"], pod, container


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_fits_the_schema_of_kubernetes(
    manifests: list[dict[str, Any]], version: str
) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for each in manifests:
        if each["kind"] != "ScaledObject":
            kubernetes_validate.validate(each, version, strict=True)


def test_the_scaled_object_fits_the_schema_of_keda() -> None:
    (found,) = of_kind(files(), "ScaledObject")
    assert found["apiVersion"] == "keda.sh/v1alpha1"
    jsonschema.validate(found["spec"], SCALED_OBJECT)
    names = [name for name, _, _ in workloads(files())]
    assert found["spec"]["scaleTargetRef"]["name"] in names


def test_the_query_of_keda_is_the_documented_one() -> None:
    (found,) = of_kind(files(), "ScaledObject")
    trigger = found["spec"]["triggers"][0]["metadata"]
    assert f"\n{trigger['query']}\n" in (ROOT / "docs" / "operations.md").read_text()


def variables(manifests: list[dict[str, Any]]) -> set[str]:
    in_containers = {
        entry["name"]
        for _, _, container in workloads(manifests)
        for entry in container.get("env", [])
    }
    maps = [each["data"] for each in manifests if each["kind"] == "ConfigMap"]
    return in_containers.union(*maps)


def test_every_variable_is_a_setting(manifests: list[dict[str, Any]]) -> None:
    text = "\n".join(path.read_text() for path in FOLDER.rglob("kustomization.yaml"))
    names = variables(manifests) | set(re.findall(r"(ANTIPHON_\w+)=", text))
    assert len(names) >= 8
    assert names <= {f"ANTIPHON_{name.upper()}" for name in setting_names()}


def test_ports_are_those_of_the_services(manifests: list[dict[str, Any]]) -> None:
    for name, _, container in workloads(manifests):
        (port,) = container["ports"]
        assert port["containerPort"] == PORTS[name], name
        probes = [probe for key, probe in container.items() if key.endswith("Probe")]
        assert len(probes) >= 2
        for probe in probes:
            target = probe.get("httpGet", probe.get("tcpSocket"))
            assert target is None or target["port"] == port["name"], name
        if name == "edge":
            assert container["args"][-2:] == ["--port", str(port["containerPort"])]


def test_services_and_budgets_select_pods(manifests: list[dict[str, Any]]) -> None:
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in of_kind(manifests, "Deployment", "StatefulSet")
    }
    for each in of_kind(manifests, "Service", "PodDisruptionBudget"):
        pod, selector = pods[each["metadata"]["name"]], each["spec"]["selector"]
        labels = selector.get("matchLabels", selector)
        assert labels.items() <= pod["metadata"]["labels"].items()
        names = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in each["spec"].get("ports", [])} <= names


def test_pods_have_no_privileges_and_limited_memory(manifests: list[dict[str, Any]]) -> None:
    for name, pod, container in workloads(manifests):
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod["automountServiceAccountToken"]
        assert not pod["enableServiceLinks"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"].keys() >= {"cpu", "memory"}


def test_secrets_are_files_that_only_their_service_has(manifests: list[dict[str, Any]]) -> None:
    needs = {"edge": {"redis_password", "admin_token", "api_keys"}}
    for name, pod, container in workloads(manifests):
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        (secret,) = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
        assert mounted["secrets"] == "/run/antiphon"
        paths = {item["path"] for item in secret["items"]}
        assert paths == needs.get(name, {"redis_password"}), name
        for entry in container.get("env", []):
            if entry["name"].endswith("_FILE"):
                assert entry["value"].removeprefix("/run/antiphon/") in paths
        claims = {volume["name"] for volume in pod["volumes"]}
        assert mounted.keys() - claims <= {"redis"}  # a template of the StatefulSet


def test_pods_have_the_time_to_drain(manifests: list[dict[str, Any]]) -> None:
    pods = {name: (pod, container) for name, pod, container in workloads(manifests)}
    worker, container = pods["worker"]
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    grace_s = worker["terminationGracePeriodSeconds"]
    assert env["ANTIPHON_STOP_GRACE_S"] == str(grace_s)
    assert grace_s > WorkerSettings.model_fields["drain_s"].default + 5
    edge, container = pods["edge"]
    pause_s = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    drain_s = EdgeSettings.model_fields["drain_s"].default
    assert edge["terminationGracePeriodSeconds"] >= pause_s + drain_s + 10
    recorder, _ = pods["recorder"]
    drain_s = RecorderSettings.model_fields["recorder_drain_s"].default
    assert recorder["terminationGracePeriodSeconds"] >= drain_s + 10


def test_a_gpu_worker_has_a_gpu_and_the_models(tmp_path: Path) -> None:
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    containers = {name: container for name, _, container in workloads(rendered(tmp_path, "gpu"))}
    worker = containers["worker"]
    assert worker["image"] == "registry.example.org/antiphon-worker-gpu:latest"
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == "1"
    mounts = {mount["name"] for mount in worker["volumeMounts"]}
    assert mounts == {"secrets", "tmp", "models", "programs"}


def test_keda_owns_the_number_of_workers(tmp_path: Path) -> None:
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    found = of_kind(rendered(tmp_path, "keda"), "Deployment")
    replicas = {each["metadata"]["name"]: each["spec"].get("replicas") for each in found}
    assert replicas == {"edge": 2, "worker": None, "recorder": 2, "cleanup": 1}
