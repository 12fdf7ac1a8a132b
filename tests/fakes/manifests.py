"""The Kubernetes manifests as ``kubectl kustomize`` builds them, and a pod of them as podman takes it."""

import copy
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy/kubernetes"
COMPONENTS = KUBERNETES / "components"
EXAMPLES = KUBERNETES / "examples"
SIDECAR = "vllm-sidecar"
NOT_FOR_PODMAN = ("livenessProbe", "ports", "readinessProbe", "startupProbe")
"""Podman 4.3 asks by curl in the container, and publishes every port on the host."""
WORKLOADS = frozenset({"Deployment", "StatefulSet"})


def build(folder: Path) -> list[Document]:
    """What a kustomization builds.

    Raises:
        AssertionError: it cannot be built, with what kubectl says.
    """
    done = subprocess.run(
        ["kubectl", "kustomize", folder], check=False, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def compose(folder: Path, workload: Document, components: Iterable[str]) -> list[Document]:
    """What components make of a workload, by a kustomization that is written into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workload.yaml").write_text(yaml.safe_dump(workload))
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "vllm",
        "resources": ["workload.yaml"],
        "components": [os.path.relpath(COMPONENTS / name, folder) for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return build(folder)


def read(path: Path) -> list[Document]:
    """The documents of a file."""
    return list(yaml.safe_load_all(path.read_text()))


def server_of_example() -> Document:
    """A Deployment as users have it, without a sidecar."""
    (server,) = read(EXAMPLES / "vllm-deployment/deployment.yaml")
    return server


def workload_of(documents: Iterable[Document]) -> Document:
    """The one workload with a sidecar."""
    (found,) = (one for one in documents if one["kind"] in WORKLOADS and has_sidecar(one))
    return found


def has_sidecar(workload: Document) -> bool:
    """Whether a workload's pods have one."""
    return any(one["name"] == SIDECAR for one in containers_of(workload["spec"]["template"]))


def containers_of(template: Document) -> list[Document]:
    """All containers of a pod template."""
    spec = template["spec"]
    return [*spec.get("initContainers", []), *spec.get("containers", [])]


def sidecar_of(template: Document) -> Document:
    """The sidecar of a pod template."""
    (found,) = (one for one in containers_of(template) if one["name"] == SIDECAR)
    return found


def pod_of(
    workload: Document,
    *,
    images: Mapping[str, str],
    limits: Mapping[str, str],
    settings: Mapping[str, str],
) -> Document:
    """A workload's pod for podman, on a machine without GPUs.

    ``images`` and ``limits`` (of memory): by the container's name. ``settings``: more of the sidecar's
    environment.
    """
    template = copy.deepcopy(workload["spec"]["template"])
    spec = template["spec"]
    for container in spec["containers"]:
        name = container["name"]
        for field in NOT_FOR_PODMAN:
            container.pop(field, None)
        container |= {"image": images[name], "imagePullPolicy": "Never"}
        container["resources"] = {"limits": {"memory": limits[name]}}
    sidecar = sidecar_of(template)
    sidecar["env"] = [one for one in sidecar["env"] if "valueFrom" not in one]
    sidecar["env"] += [{"name": name, "value": value} for name, value in settings.items()]
    for volume in spec["volumes"]:
        if "emptyDir" in volume:
            volume["emptyDir"] = {}
    spec["restartPolicy"] = "Always"
    metadata = {"name": workload["metadata"]["name"], "labels": template["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def names(containers: Sequence[Document]) -> list[str]:
    """How containers are called, in their order."""
    return [one["name"] for one in containers]
