"""The chart in deploy/helm, as helm renders it, fits the schemas, the settings and itself."""

import json
import platform
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from antiphon.cleanup_job.settings import CleanupSettings
from antiphon.cli.settings import setting_names
from antiphon.edge.settings import EdgeSettings
from antiphon.inference_worker.settings import WorkerSettings
from antiphon.recorder_service.settings import RecorderSettings
from support.dashboards import ALERTS, DASHBOARD, DEPLOY, ROOT
from support.helm import CHART, Helm, helm_program

KUBERNETES = ("1.29", "1.32", "1.36")
PORTS = {
    "edge": {
        "http": EdgeSettings.model_fields["port"].default,
        "health": EdgeSettings.model_fields["edge_health_port"].default,
    },
    "worker": {"health": WorkerSettings.model_fields["health_port"].default},
    "recorder": {"health": RecorderSettings.model_fields["recorder_health_port"].default},
    "cleanup": {"health": CleanupSettings.model_fields["cleanup_health_port"].default},
    "redis": {"redis": 6379},
}
EVERYTHING = (
    "--set=ingress.enabled=true,ingress.host=voice.example.org,ingress.tlsSecret=voice-tls",
    "--set=monitoring.enabled=true,monitoring.labels.release=prometheus",
    "--set=monitoring.repositoryUrl=https://git.example.org/voice/",
    "--set=networkPolicy.enabled=true,worker.autoscaling.by=keda",
    "--set=settings.ANTIPHON_MAX_SESSIONS_PER_CLIENT=20,image.registry=registry.example.org/a/",
    "--set=image.tag=7,image.pullSecrets={registry}",
    '--set-json=networkPolicy.clients=[{"namespaceSelector":{}}]',
    '--set-json=worker.tolerations=[{"key":"voice","operator":"Exists"}]',
    "--set=worker.nodeSelector.pool=voice,redis.storageClass=fast,recordings.storageClass=nfs",
    "--set=edge.webrtc.enabled=true,edge.webrtc.count=3,edge.webrtc.addresses={192.0.2.1,192.0.2.2}",
)
INSTALLATIONS = {
    "default": (),
    "everything": EVERYTHING,
    "gpu": ("--values", str(DEPLOY / "helm" / "gpu.yaml")),
    "external": (
        "--set=redis.enabled=false,redis.url=rediss://redis.example.org:6379/0",
        "--set=recordings.existingClaim=shared,worker.autoscaling.by=hpa",
        "--set=networkPolicy.enabled=true",
    ),
}


def fields(required: tuple[str, ...], **properties: object) -> dict[str, object]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


NUMBER, TEXT = {"type": "integer", "minimum": 0}, {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
CUSTOM = {
    "ScaledObject": fields(
        ("scaleTargetRef", "triggers"),
        scaleTargetRef=fields(("name",), name=TEXT),
        minReplicaCount=NUMBER,
        maxReplicaCount=NUMBER,
        cooldownPeriod=NUMBER,
        fallback=fields(("failureThreshold", "replicas"), failureThreshold=NUMBER, replicas=NUMBER),
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
                    "additionalProperties": TEXT,
                },
            ),
        },
    ),
    "PodMonitor": fields(
        ("selector", "podMetricsEndpoints"),
        selector=fields((), matchLabels=TEXTS),
        jobLabel=TEXT,
        podMetricsEndpoints={
            "type": "array",
            "items": fields((), port=TEXT, path=TEXT, interval={"pattern": r"^\d+s$"}),
        },
    ),
    "PrometheusRule": fields(
        ("groups",),
        groups={
            "type": "array",
            "items": fields(
                ("name", "rules"),
                name=TEXT,
                rules={
                    "type": "array",
                    "items": {
                        "required": ["expr"],
                        "oneOf": [{"required": ["alert"]}, {"required": ["record"]}],
                        **fields(
                            ("expr",),
                            **dict.fromkeys(("alert", "record", "expr", "for"), TEXT),
                            **dict.fromkeys(("labels", "annotations"), TEXTS),
                        ),
                    },
                },
            ),
        },
    ),
}
"""The fields of custom resources that the chart may use, of KEDA 2.17 and Prometheus operator 0.70 or newer."""


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    folder = tmp_path_factory.mktemp("helm")
    program = helm_program(folder) if platform.machine() == "x86_64" else None
    if program is None:
        pytest.skip("helm is not installed")
    return Helm(program, folder)


@pytest.fixture(scope="module", params=INSTALLATIONS)
def manifests(request: pytest.FixtureRequest, helm: Helm) -> list[dict[str, Any]]:
    return helm.objects(*INSTALLATIONS[request.param])


def of_kind(manifests: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [each for each in manifests if each["kind"] in kinds]


def workloads(manifests: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Component, pod and container of each."""
    for each in of_kind(manifests, "Deployment", "StatefulSet"):
        template = each["spec"]["template"]
        (container,) = template["spec"]["containers"]
        component = template["metadata"]["labels"]["app.kubernetes.io/component"]
        assert container["name"] == component
        assert each["metadata"]["name"] == f"voice-{component}"
        yield component, template["spec"], container


def test_helm_finds_no_error_in_the_chart(helm: Helm) -> None:
    done = helm.run("lint", "--strict", str(CHART), *EVERYTHING)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_fits_the_schema_of_kubernetes(
    manifests: list[dict[str, Any]], version: str
) -> None:
    for each in manifests:
        if each["kind"] in CUSTOM:
            jsonschema.validate(each["spec"], CUSTOM[each["kind"]])
        else:
            kubernetes_validate.validate(each, version, strict=True)


def test_names_and_labels_belong_to_the_release(manifests: list[dict[str, Any]]) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests]
    assert len(set(names)) == len(names)
    for each in manifests:
        assert each["metadata"]["name"].startswith("voice")
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "voice"
        assert "namespace" not in each["metadata"]


def test_every_variable_is_a_setting(manifests: list[dict[str, Any]]) -> None:
    env = [entry for _, _, container in workloads(manifests) for entry in container.get("env", ())]
    maps = [one["data"] for one in of_kind(manifests, "ConfigMap") if "settings" in str(one)]
    names = {entry["name"] for entry in env}.union(*maps) - {"antiphon.json"}
    assert len(names) >= 8
    assert names <= {f"ANTIPHON_{name.upper()}" for name in setting_names()}


def test_ports_are_those_of_the_services(manifests: list[dict[str, Any]]) -> None:
    for name, _, container in workloads(manifests):
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        tcp = {port["name"] for port in container["ports"] if port.get("protocol") != "UDP"}
        assert {each: ports[each] for each in tcp} == PORTS[name]
        probes = [probe for key, probe in container.items() if key.endswith("Probe")]
        assert len(probes) >= 2
        for probe in probes:
            target = probe.get("httpGet", probe.get("tcpSocket"))
            assert target is None or target["port"] in ports, name
        if name == "edge":
            assert container["args"][-2:] == ["--port", str(ports["http"])]


def test_selectors_find_pods_and_their_ports(manifests: list[dict[str, Any]]) -> None:
    pods = [each["spec"]["template"] for each in of_kind(manifests, "Deployment", "StatefulSet")]
    seen = 0
    for each in of_kind(manifests, "Service", "PodDisruptionBudget", "NetworkPolicy", "PodMonitor"):
        spec = each["spec"]
        selector = spec.get("selector") or spec["podSelector"]
        labels = selector.get("matchLabels", selector).items()
        found = [pod for pod in pods if labels <= pod["metadata"]["labels"].items()]
        ports = {port["name"] for pod in found for port in pod["spec"]["containers"][0]["ports"]}
        named = {port["targetPort"] for port in spec.get("ports", ())}
        opened = [port for rule in spec.get("ingress", ()) for port in rule["ports"]]
        named |= {port["port"] for port in opened if "endPort" not in port}
        named |= {endpoint["port"] for endpoint in spec.get("podMetricsEndpoints", ())}
        assert found, each["metadata"]["name"]
        assert named <= ports, each["metadata"]["name"]
        seen += 1
    assert seen >= 5


def test_metrics_are_in_no_service(manifests: list[dict[str, Any]]) -> None:
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(manifests, "Service")}
    assert services["voice-edge"]["ports"] == [{"name": "http", "port": 80, "targetPort": "http"}]


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
        assert secret["secretName"] == "antiphon"
        paths = {item["path"] for item in secret["items"]}
        assert paths == needs.get(name, {"redis_password"}), name
        for entry in container.get("env", []):
            if entry["name"].endswith("_FILE"):
                assert entry["value"].removeprefix("/run/antiphon/") in paths
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert mounted.keys() - volumes <= {"redis"}  # a template of the StatefulSet


def test_claims_exist_or_are_named_by_the_operator(manifests: list[dict[str, Any]]) -> None:
    made = {one["metadata"]["name"] for one in of_kind(manifests, "PersistentVolumeClaim")}
    used = {
        volume["persistentVolumeClaim"]["claimName"]
        for _, pod, _ in workloads(manifests)
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert made <= used
    assert used - made <= {"shared", "models"}
    for one in of_kind(manifests, "PersistentVolumeClaim"):
        assert one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


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


def test_a_gpu_worker_has_a_gpu_and_the_models(helm: Helm) -> None:
    containers = {name: each for name, _, each in workloads(helm.objects(*INSTALLATIONS["gpu"]))}
    worker = containers["worker"]
    assert worker["image"].startswith("antiphon-worker-gpu:")
    assert worker["resources"]["limits"] == {"memory": "32Gi", "nvidia.com/gpu": "1"}
    assert {"--engine=minicpmo", "--model-path=/models/MiniCPM-o-4_5"} <= set(worker["args"])
    mounts = {mount["name"] for mount in worker["volumeMounts"]}
    assert mounts == {"secrets", "tmp", "models", "programs"}


def test_a_gpu_worker_needs_no_limits_of_its_own(helm: Helm, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("worker: {resources: {limits: null}}")
    found = helm.objects(*INSTALLATIONS["gpu"], "--values", str(tmp_path / "values.yaml"))
    (worker,) = [container for name, _, container in workloads(found) if name == "worker"]
    assert worker["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert worker["resources"]["requests"] == {"cpu": "4", "memory": "16Gi"}


@pytest.mark.parametrize("values", ["default", "gpu"])
def test_the_next_worker_loads_before_the_slots_are_used(helm: Helm, values: str) -> None:
    found = helm.objects(*INSTALLATIONS[values], "--set=worker.autoscaling.by=keda")
    (worker,) = [container for name, _, container in workloads(found) if name == "worker"]
    (slots,) = [int(word[8:]) for word in worker["args"] if word.startswith("--slots=")]
    (scaler,) = of_kind(found, "ScaledObject")
    wanted = int(scaler["spec"]["triggers"][0]["metadata"]["threshold"])
    assert wanted == slots * 3 / 4


def test_the_host_may_be_a_wildcard(helm: Helm) -> None:
    found = helm.objects(
        "--set=ingress.enabled=true,ingress.host=*.example.org,ingress.tlsSecret=voice-tls"
    )
    (ingress,) = of_kind(found, "Ingress")
    assert ingress["spec"]["rules"][0]["host"] == "*.example.org"
    assert ingress["spec"]["tls"][0]["hosts"] == ["*.example.org"]


def test_the_values_reach_the_objects(helm: Helm) -> None:
    found = helm.objects(*EVERYTHING)
    kinds = {each["kind"]: each for each in found}
    pods = {name: (pod, container) for name, pod, container in workloads(found)}
    assert pods["edge"][1]["image"] == "registry.example.org/a/antiphon-service-webrtc:7"
    assert pods["edge"][0]["imagePullSecrets"] == [{"name": "registry"}]
    assert pods["worker"][0]["nodeSelector"] == {"pool": "voice"}
    (settings,) = [
        one["data"]
        for one in of_kind(found, "ConfigMap")
        if one["metadata"]["name"].endswith("settings")
    ]
    assert settings["ANTIPHON_MAX_SESSIONS_PER_CLIENT"] == "20"
    ingress = kinds["Ingress"]["spec"]
    assert ingress["tls"] == [{"hosts": ["voice.example.org"], "secretName": "voice-tls"}]
    backend = ingress["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "voice-edge", "port": {"name": "http"}}
    timeout_s = kinds["Ingress"]["metadata"]["annotations"]
    assert int(timeout_s["nginx.ingress.kubernetes.io/proxy-read-timeout"]) >= 60
    assert kinds["PodMonitor"]["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.parametrize(
    ("addresses", "announced"),
    [
        ((), {"valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}),
        (("--set=edge.webrtc.addresses={192.0.2.1,192.0.2.2}",), {"value": "192.0.2.1,192.0.2.2"}),
    ],
    ids=["of the node", "named"],
)
def test_calls_have_ports_of_the_node_and_announce_its_address(
    helm: Helm, addresses: tuple[str, ...], announced: dict[str, Any]
) -> None:
    found = helm.objects("--set=edge.webrtc.enabled=true,edge.webrtc.firstPort=50000", *addresses)
    (edge,) = [container for name, _, container in workloads(found) if name == "edge"]
    ports = {port["containerPort"]: port for port in edge["ports"] if "hostPort" in port}
    assert all(port["hostPort"] == number for number, port in ports.items())
    assert {port["protocol"] for port in ports.values()} == {"UDP"}
    variables = {entry["name"]: entry for entry in edge["env"]}
    first, last = EdgeSettings(
        webrtc_ports=variables["ANTIPHON_WEBRTC_PORTS"]["value"]
    ).webrtc_port_range or (0, 0)
    assert list(ports) == list(range(first, last + 1))
    assert announced.items() <= variables["ANTIPHON_WEBRTC_ADDRESSES"].items()
    # Two pods cannot have one port of a node, so a new one would wait for ever for the old one.
    (deployment,) = [
        one for one in of_kind(found, "Deployment") if "edge" in one["metadata"]["name"]
    ]
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}


def test_without_calls_an_edge_has_no_port_of_its_node(helm: Helm) -> None:
    (edge,) = [container for name, _, container in workloads(helm.objects()) if name == "edge"]
    assert edge["image"].startswith("antiphon-service:")
    assert not any("hostPort" in port for port in edge["ports"])
    assert not any("WEBRTC" in entry["name"] for entry in edge["env"])


def test_the_documented_values_are_accepted(helm: Helm, tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/kubernetes.md").read_text(), re.DOTALL)
    (tmp_path / "voice.yaml").write_text(text)
    found = helm.objects("--values", str(tmp_path / "voice.yaml"))
    assert of_kind(found, "Ingress")


def test_numbers_are_written_as_in_the_file(helm: Helm, tmp_path: Path) -> None:
    """Helm reads them as floats, and prints large ones as 6.7108864e+07."""
    settings = {"ANTIPHON_MAX_CHAT_BYTES": 67108864, "ANTIPHON_DRAIN_S": 2.5}
    values = {
        "settings": settings,
        "image": {"tag": 20261128},
        "cleanup": {"maxStorageGb": 2000000},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    found = helm.objects("--values", str(tmp_path / "values.yaml"))
    (data,) = [one["data"] for one in of_kind(found, "ConfigMap")]
    assert {name: data[name] for name in settings} == {k: str(v) for k, v in settings.items()}
    containers = {name: container for name, _, container in workloads(found)}
    assert containers["edge"]["image"] == "antiphon-service:20261128"
    assert {"name": "ANTIPHON_MAX_STORAGE_GB", "value": "2000000"} in containers["cleanup"]["env"]


def test_changed_settings_restart_the_services_and_not_redis(helm: Helm) -> None:
    def templates(*words: str) -> dict[str, Any]:
        found = of_kind(helm.objects(*words), "Deployment", "StatefulSet")
        return {each["metadata"]["name"]: each["spec"]["template"] for each in found}

    before, after = templates(), templates("--set=settings.ANTIPHON_LOG_LEVEL=debug")
    changed = {name for name, template in after.items() if template != before[name]}
    assert changed == {f"voice-{name}" for name in ("edge", "worker", "recorder", "cleanup")}


def test_monitoring_has_the_alerts_and_the_dashboard(helm: Helm) -> None:
    found = helm.objects(*EVERYTHING)
    (rules,) = of_kind(found, "PrometheusRule")
    all_rules = [rule for group in rules["spec"]["groups"] for rule in group["rules"]]
    assert [rule["alert"] for rule in all_rules] == [alert["alert"] for alert in ALERTS]
    assert {rule["annotations"]["runbook_url"].partition("#")[0] for rule in all_rules} == {
        "https://git.example.org/voice/docs/operations.md"
    }
    (board,) = [one for one in of_kind(found, "ConfigMap") if "antiphon.json" in one["data"]]
    assert json.loads(board["data"]["antiphon.json"]) == DASHBOARD
    (monitor,) = of_kind(found, "PodMonitor")
    assert monitor["spec"]["jobLabel"] == "app.kubernetes.io/component"


def test_alerts_watch_one_namespace(helm: Helm) -> None:
    """Else the edges of another release would hide that this one has none."""
    (rules,) = of_kind(helm.objects(*EVERYTHING), "PrometheusRule")
    for rule, alert in zip(rules["spec"]["groups"][0]["rules"], ALERTS, strict=True):
        for selector in re.findall(r"\b(?:antiphon_\w+|up\b)(\{[^}]*\})?", rule["expr"]):
            assert 'namespace="calls"' in selector, rule["expr"]
        plain = rule["expr"].replace('{namespace="calls"}', "").replace('namespace="calls", ', "")
        assert plain == alert["expr"]
        assert rule["labels"] == {"namespace": "calls", **alert["labels"]}
        assert rule["annotations"]["summary"] == alert["annotations"]["summary"]


def test_without_monitoring_nobody_reads_metrics(helm: Helm) -> None:
    found = helm.objects(
        "--set=networkPolicy.enabled=true", "--set-json=networkPolicy.monitoring=[]"
    )
    (policy,) = [
        one["spec"]
        for one in of_kind(found, "NetworkPolicy")
        if one["metadata"]["name"] == "voice-services"
    ]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == []
    for version in KUBERNETES:
        for one in of_kind(found, "NetworkPolicy"):
            kubernetes_validate.validate(one, version, strict=True)


def test_only_services_reach_redis_and_only_monitoring_reaches_metrics(helm: Helm) -> None:
    policies = {
        one["metadata"]["name"]: one["spec"]
        for one in of_kind(helm.objects(*EVERYTHING), "NetworkPolicy")
    }
    assert set(policies) == {"voice-services", "voice-edge", "voice-redis"}
    (rule,) = policies["voice-services"]["ingress"]
    assert (
        rule["from"]
        == yaml.safe_load((CHART / "values.yaml").read_text())["networkPolicy"]["monitoring"]
    )
    assert rule["ports"] == [{"port": "health"}]
    (rule,) = policies["voice-redis"]["ingress"]
    assert rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "voice"
    assert policies["voice-redis"]["egress"] == []
    rule, calls = policies["voice-edge"]["ingress"]
    assert rule == {"ports": [{"port": "http"}], "from": [{"namespaceSelector": {}}]}
    assert calls == {"ports": [{"protocol": "UDP", "port": 40000, "endPort": 40002}]}


@pytest.mark.parametrize("by", ["keda", "hpa"])
def test_an_autoscaler_owns_the_number_of_workers(helm: Helm, by: str) -> None:
    found = helm.objects(f"--set=worker.autoscaling.by={by}")
    replicas = {
        one["metadata"]["name"]: one["spec"].get("replicas") for one in of_kind(found, "Deployment")
    }
    assert replicas == {
        "voice-edge": 2,
        "voice-worker": None,
        "voice-recorder": 2,
        "voice-cleanup": 1,
    }
    (scaler,) = of_kind(found, "ScaledObject", "HorizontalPodAutoscaler")
    assert scaler["spec"]["scaleTargetRef"]["name"] == "voice-worker"


def test_the_query_of_keda_is_the_documented_one(helm: Helm) -> None:
    (found,) = of_kind(helm.objects("--set=worker.autoscaling.by=keda"), "ScaledObject")
    query = found["spec"]["triggers"][0]["metadata"]["query"]
    assert query.count('{namespace="calls"}') == 2
    documented = query.replace('{namespace="calls"}', "")
    assert f"\n{documented}\n" in (ROOT / "docs" / "operations.md").read_text()


def test_workers_do_not_go_while_redis_is_down(helm: Helm) -> None:
    """Then edges have no figures of the system, which is not a figure of 0."""
    (found,) = of_kind(helm.objects("--set=worker.autoscaling.by=keda"), "ScaledObject")
    assert found["spec"]["triggers"][0]["metadata"]["ignoreNullValues"] == "false"
    assert found["spec"]["fallback"]["replicas"] == found["spec"]["maxReplicaCount"]


MISTAKES = [
    (("--set=worker.engin=local",), "additional properties 'engin' not allowed"),
    (("--set=image.registry=registry.example.org/a",), "registry"),
    (("--set=settings.LOG_LEVEL=debug",), "LOG_LEVEL"),
    (("--set=worker.autoscaling.by=magic",), "'none', 'keda', 'hpa'"),
    (("--set=redis.enabled=false",), "set redis.url to your Redis"),
    (("--set=ingress.enabled=true",), "set ingress.host to the name that users open"),
    (("--set=worker.engine=minicpmo",), "set worker.modelsClaim"),
    (("--set=worker.engine=minicpmo,worker.modelsClaim=models",), "set worker.gpus"),
    (("--set=recordings.accessModes={ReadWriteOncePod}",), "accessModes"),
    (("--set=edge.webrtc.addresses={voice.example.org}",), "addresses"),
]


@pytest.mark.parametrize(("words", "says"), MISTAKES, ids=[words[0] for words, _ in MISTAKES])
def test_a_wrong_value_is_named(helm: Helm, words: tuple[str, ...], says: str) -> None:
    done: subprocess.CompletedProcess[str] = helm.template(*words)
    assert done.returncode != 0
    assert says in done.stderr


def test_every_value_has_a_schema() -> None:
    """A misspelled value is an error, because no unknown one is allowed."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.validate(values, schema)
    assert values.keys() == schema["properties"].keys() - {"global"}
    for name, part in schema["properties"].items():
        if isinstance(values.get(name), dict) and name != "settings":
            assert part["additionalProperties"] is False, name
            assert values[name].keys() == part["properties"].keys(), name
