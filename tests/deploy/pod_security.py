"""The Pod Security Standards of Kubernetes: which of the three levels a pod template reaches.

After the tables of https://kubernetes.io/docs/concepts/security/pod-security-standards/, for Linux.
"""

from collections.abc import Iterator
from typing import Final

from tests.fakes.manifests import Document, containers_of

BASELINE_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
RESTRICTED_VOLUMES: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
PROFILES: Final = frozenset({"RuntimeDefault", "Localhost"})
SYSCTLS: Final = frozenset({"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range"})


def level_of(template: Document) -> str:
    """The strictest level that admits the pods of a template."""
    if any(against_baseline(template)):
        return "privileged"
    return "baseline" if any(against_restricted(template)) else "restricted"


def against_baseline(template: Document) -> Iterator[str]:
    """What the level ``baseline`` forbids."""
    spec = template["spec"]
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield name
    yield from (one["name"] for one in spec.get("volumes", []) if "hostPath" in one)
    yield from (
        one["name"]
        for one in spec.get("securityContext", {}).get("sysctls", [])
        if one["name"] not in SYSCTLS
    )
    if profile_of(spec.get("securityContext", {})) == "Unconfined":
        yield "seccompProfile"
    for container in containers_of(template):
        yield from _container_against_baseline(container)


def _container_against_baseline(container: Document) -> Iterator[str]:
    context = container.get("securityContext", {})
    if context.get("privileged"):
        yield "privileged"
    yield from set(added(context)) - BASELINE_CAPABILITIES
    if any(port.get("hostPort") for port in container.get("ports", [])):
        yield "hostPort"
    if context.get("procMount", "Default") != "Default":
        yield "procMount"
    if profile_of(context) == "Unconfined":
        yield "seccompProfile"


def against_restricted(template: Document) -> Iterator[str]:
    """What the level ``restricted`` forbids besides."""
    spec = template["spec"]
    for volume in spec.get("volumes", []):
        yield from set(volume) - {"name"} - RESTRICTED_VOLUMES
    pod = spec.get("securityContext", {})
    if pod.get("runAsUser") == 0:
        yield "runAsUser"
    for container in containers_of(template):
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if not context.get("runAsNonRoot", pod.get("runAsNonRoot")):
            yield "runAsNonRoot"
        if context.get("runAsUser") == 0:
            yield "runAsUser"
        if (profile_of(context) or profile_of(pod)) not in PROFILES:
            yield "seccompProfile"
        if "ALL" not in context.get("capabilities", {}).get("drop", []):
            yield "drop"
        yield from set(added(context)) - {"NET_BIND_SERVICE"}


def profile_of(context: Document) -> str | None:
    """The type of a seccomp profile."""
    profile: str | None = context.get("seccompProfile", {}).get("type")
    return profile


def added(context: Document) -> list[str]:
    """The capabilities that are added."""
    found: list[str] = context.get("capabilities", {}).get("add", [])
    return found
