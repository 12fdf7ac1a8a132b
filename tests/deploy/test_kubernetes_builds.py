"""Every component builds on whatever an operator has, adds the sidecar, and leaves all else alone."""

import copy
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.kubernetes_files import (
    AROUND,
    EXAMPLE_NAMES,
    TOGETHER,
    bare,
    command_for,
    example,
    flat,
    folders_of_components,
    listed,
    server_for,
    with_component,
)
from tests.fakes.manifests import (
    EXAMPLES,
    KUBERNETES,
    SIDECAR,
    Document,
    build,
    compose,
    containers_of,
    has_sidecar,
    names,
    read,
    sidecar_of,
    workload_of,
)

pytestmark = pytest.mark.component("kubectl")

EVERY = ("sidecar", *TOGETHER)
SERVER_CHANGES = {
    "log-shared-volume": {"command", "volumeMounts"},
    "log-shared-volume-entrypoint": {"command", "volumeMounts"},
}
"""What a component changes of the server's container: nothing, but for these."""
POD_CHANGES = {
    "api-access": {"serviceAccountName"},
    "log-api": {"serviceAccountName"},
    "pod-status-api": {"serviceAccountName"},
    "plain-container": {"containers"},
}
"""What a component changes of the pod besides that it has a sidecar, and volumes."""
REFERENCE = re.compile(r"\$\((\w+)\)")


def templates() -> Iterator[tuple[str, Document]]:
    """Every pod template with a sidecar that we make."""
    for name in EVERY:
        yield name, workload_of(with_component(name))["spec"]["template"]
    for name in ("production-stack", "vllm-deployment"):
        yield name, workload_of(example(name))["spec"]["template"]
    yield "leaderworkerset", leader_template()


def leader_template() -> Document:
    template: Document = lws()["spec"]["leaderWorkerTemplate"]["leaderTemplate"]
    return template


def lws() -> Document:
    (found,) = (one for one in example("leaderworkerset") if one["kind"] == "LeaderWorkerSet")
    return found


def as_maps(value: object) -> object:
    """Lists of what has a name as maps: their order says nothing."""
    if isinstance(value, dict):
        return {key: as_maps(part) for key, part in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(part, dict) and "name" in part for part in value):
            return {part["name"]: as_maps(part) for part in value}
        return [as_maps(part) for part in value]
    return value


def test_no_component_and_no_example_is_forgotten() -> None:
    assert folders_of_components() == {*EVERY, AROUND}
    assert {path.name for path in EXAMPLES.iterdir()} == set(EXAMPLE_NAMES)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
@pytest.mark.parametrize("name", EVERY)
def test_a_component_builds_on_a_workload_that_has_nothing_yet(
    tmp_path: Path, name: str, kind: str
) -> None:
    documents = compose(tmp_path, bare(kind, **command_for(name)), listed(name))

    workload = workload_of(documents)
    assert workload["kind"] == kind
    spec = workload["spec"]["template"]["spec"]
    assert spec["containers"][0]["name"] == "vllm"
    assert spec["shareProcessNamespace"] is True
    mounted = {
        mount["name"]
        for container in containers_of(workload["spec"]["template"])
        for mount in container.get("volumeMounts", [])
    }
    assert mounted == {volume["name"] for volume in spec.get("volumes", [])}


@pytest.mark.parametrize("name", EVERY)
def test_a_component_changes_of_the_server_what_it_says_and_no_more(name: str) -> None:
    before = server_for(name)["spec"]["template"]["spec"]
    after = workload_of(with_component(name))["spec"]["template"]["spec"]

    changed = {
        key
        for key in {*before["containers"][0], *after["containers"][0]}
        if as_maps(before["containers"][0].get(key)) != as_maps(after["containers"][0].get(key))
    }
    assert changed == SERVER_CHANGES.get(name, set())
    of_pod = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    expected = {"shareProcessNamespace", "initContainers", "volumes", "containers"}
    assert of_pod - expected == POD_CHANGES.get(name, set()) - expected
    kept = {volume["name"]: volume for volume in after["volumes"]}
    assert all(kept[volume["name"]] == volume for volume in before["volumes"])


def test_the_sidecar_starts_before_the_server_and_outlives_it() -> None:
    for name, template in templates():
        if name == "plain-container":
            continue
        first = template["spec"]["initContainers"][0]
        assert (first["name"], first["restartPolicy"]) == (SIDECAR, "Always"), name


def test_without_native_sidecars_it_stands_behind_the_server() -> None:
    spec = workload_of(with_component("plain-container"))["spec"]["template"]["spec"]

    assert names(spec["containers"]) == ["vllm", SIDECAR]
    assert not spec["initContainers"]
    assert "restartPolicy" not in spec["containers"][1]


def test_a_plain_container_is_only_made_of_our_own(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="initContainers"):
        compose(tmp_path, bare(), ["plain-container"])


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("log-shared-volume", {"args": ["m"]}),
        ("log-shared-volume-entrypoint", {"command": ["vllm", "serve"]}),
    ],
)
def test_a_log_component_refuses_a_server_that_is_not_its(
    tmp_path: Path, name: str, server: Document
) -> None:
    with pytest.raises(AssertionError, match="containers/0/command"):
        compose(tmp_path, bare(**server), listed(name))


def test_a_workload_that_does_not_ask_for_a_sidecar_gets_none(tmp_path: Path) -> None:
    workload = bare()
    del workload["metadata"]["labels"]

    (built,) = compose(tmp_path, workload, ["sidecar", "state", "cgroup-hostpath"])

    workload["metadata"]["namespace"] = "vllm"
    assert built == workload


def test_a_sidecar_never_decides_whether_the_server_serves() -> None:
    for name, template in templates():
        sidecar = sidecar_of(template)
        assert not {"readinessProbe", "startupProbe"} & set(sidecar), name
        # Else the pod would lose the class Guaranteed.
        assert sidecar["resources"]["requests"] == sidecar["resources"]["limits"], name
        for volume in template["spec"].get("volumes", []):
            if volume["name"].startswith(("vllm-log", SIDECAR)):
                assert not volume.get("emptyDir"), name


def test_every_variable_is_set_before_it_is_used() -> None:
    """Kubernetes leaves a reference to one that comes later as it is written."""
    used = 0
    for name, template in templates():
        known: set[str] = set()
        sidecar = sidecar_of(template)
        for variable in sidecar["env"]:
            wanted = set(REFERENCE.findall(variable.get("value", "")))
            used += len(wanted)
            assert wanted <= known, (name, variable)
            known.add(variable["name"])
        for mount in sidecar.get("volumeMounts", []):
            assert set(REFERENCE.findall(mount.get("subPathExpr", ""))) <= known, name
    assert used > 0


def test_pods_bear_the_label_that_monitor_and_policy_select() -> None:
    for name, template in templates():
        assert template["metadata"]["labels"]["vllm-sidecar"] == "true", name
        ports = sidecar_of(template)["ports"]
        assert ports == [{"name": "sidecar-metrics", "containerPort": 9477}], name
    (monitor,) = (one for one in with_component("pod-monitor") if one["kind"] == "PodMonitor")
    (policy,) = (one for one in with_component("network-policy") if one["kind"] == "NetworkPolicy")
    assert monitor["spec"]["selector"] == policy["spec"]["podSelector"]
    assert monitor["spec"]["selector"] == {"matchLabels": {"vllm-sidecar": "true"}}
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == "sidecar-metrics"
    assert policy["spec"]["ingress"][0]["ports"][0]["port"] == "sidecar-metrics"


def test_the_one_file_to_copy_is_what_the_example_builds() -> None:
    """Of both, two values are to be changed: the image and the model."""
    assert as_maps(flat()) == as_maps(list(example("vllm-deployment")))


def test_of_the_production_stack_the_engines_get_a_sidecar_and_the_router_none() -> None:
    engine, router = read(EXAMPLES / "production-stack/rendered.yaml")

    built = {
        one["metadata"]["name"]: one
        for one in example("production-stack")
        if one["kind"] == "Deployment"
    }
    assert built[router["metadata"]["name"]] == router
    assert has_sidecar(built[engine["metadata"]["name"]])
    assert len(built) == 2


def test_of_a_leader_worker_set_the_leader_gets_a_sidecar_and_the_workers_none() -> None:
    (before,) = read(EXAMPLES / "leaderworkerset/leaderworkerset.yaml")
    after = copy.deepcopy(lws())

    leader = after["spec"]["leaderWorkerTemplate"].pop("leaderTemplate")
    server = before["spec"]["leaderWorkerTemplate"].pop("leaderTemplate")
    assert after["spec"] == before["spec"]
    assert leader["spec"]["containers"] == server["spec"]["containers"]
    assert leader["spec"]["initContainers"][0]["name"] == SIDECAR
    # A restart of any of its containers would begin the whole group anew.
    assert "livenessProbe" not in leader["spec"]["initContainers"][0]
    assert not [one for one in example("leaderworkerset") if one["kind"] == "Deployment"]


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_an_example_builds_whole(name: str) -> None:
    documents = example(name)

    kinds = [one["kind"] for one in documents]
    assert "PodTemplate" not in kinds
    identities = [(one["kind"], one["metadata"]["name"]) for one in documents]
    assert len(set(identities)) == len(identities)
    bound = {one["metadata"]["namespace"] for one in documents if one["kind"] == "RoleBinding"}
    subjects = {
        (subject["name"], subject["namespace"])
        for one in documents
        if one["kind"] == "RoleBinding"
        for subject in one["subjects"]
    }
    assert subjects == {(SIDECAR, namespace) for namespace in bound}


def test_an_image_is_set_in_one_place() -> None:
    for _, template in templates():
        assert sidecar_of(template)["image"].rpartition(":")[0].endswith(SIDECAR)
    for name in EXAMPLE_NAMES:
        assert build(EXAMPLES / name)
        text = (EXAMPLES / name / "kustomization.yaml").read_text()
        assert text.count("newName: registry.example/vllm-sidecar") == 1


def test_the_readme_names_every_component_and_example() -> None:
    text = (KUBERNETES / "README.md").read_text()

    missing = [name for name in (*EVERY, *EXAMPLE_NAMES) if f"`{name}`" not in text]
    assert not missing
