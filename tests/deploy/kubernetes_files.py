"""Which manifests there are, and what each of them is tried on."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.fakes.manifests import (
    COMPONENTS,
    EXAMPLES,
    KUBERNETES,
    Document,
    build,
    compose,
    read,
    server_of_example,
)

FLAT: Final = KUBERNETES / "vllm-with-sidecar.yaml"
ALONE: Final = ("sidecar",)
TOGETHER: Final = {
    "api-access": (),
    "cgroup-hostpath": (),
    "kernel-log": (),
    "log-api": ("api-access",),
    "log-cri-hostpath": (),
    "log-shared-volume": (),
    "log-shared-volume-entrypoint": (),
    "network-policy": (),
    "plain-container": (),
    "pod-monitor": (),
    "pod-status-api": ("api-access",),
    "prometheus-rule": (),
    "server-as-root": (),
    "state": (),
}
"""Every component beside ``sidecar``, and what it needs besides."""
AROUND: Final = "leaderworkerset"
"""Its two components are listed around others; the example shows them."""
EXAMPLE_NAMES: Final = ("leaderworkerset", "production-stack", "vllm-deployment")


def listed(name: str) -> tuple[str, ...]:
    """The components of a kustomization that is to have ``name``."""
    return ALONE if name == "sidecar" else (*ALONE, *TOGETHER[name], name)


def bare(kind: str = "Deployment", **server: object) -> Document:
    """A workload with no list that a component could add to."""
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.26.0", **server}
    labels = {"app": "vllm"}
    spec: Document = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    if kind == "StatefulSet":
        spec["serviceName"] = "vllm"
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "vllm", "labels": {"vllm-sidecar": "true"}},
        "spec": spec,
    }


def command_for(name: str) -> dict[str, object]:
    """The command that a server has with a component: one asks for it, one for none."""
    if name == "log-shared-volume-entrypoint":
        return {"args": ["m"]}
    return {"command": ["vllm", "serve"], "args": ["m"]}


def server_for(name: str) -> Document:
    """The example's server, with the command that a component asks for."""
    server = server_of_example()
    container = server["spec"]["template"]["spec"]["containers"][0]
    container |= command_for(name)
    return server


@cache
def example(name: str) -> tuple[Document, ...]:
    """What an example builds."""
    return tuple(build(EXAMPLES / name))


@cache
def with_component(name: str, *more: str) -> tuple[Document, ...]:
    """What a component, and more behind it, makes of the example's server."""
    with TemporaryDirectory() as folder:
        return tuple(compose(Path(folder), server_for(name), (*listed(name), *more)))


def folders_of_components() -> set[str]:
    """The components that are there."""
    return {path.name for path in COMPONENTS.iterdir()}


def flat() -> list[Document]:
    """The one file to copy."""
    return read(FLAT)
