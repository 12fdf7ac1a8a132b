"""Names of cgroups -> the container and the pod that they hold.

Two drivers name them. systemd: ``kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope``, with
``_`` for ``-`` in the uid, because ``-`` nests slices (systemd.slice(5)). cgroupfs:
``kubepods/burstable/pod<uid>/<id>``. containerd writes ``<slice>:cri-containerd:<id>`` where it was
given the slice of the one and drives the other. crun puts the processes into a child ``container``.
"""

import re
from collections.abc import Iterable
from typing import Final

_CONTAINER: Final = re.compile(r"(?:(?P<before>.*)[-:])?(?P<id>[0-9a-f]{64})(?:\.scope)?")
_MONITOR: Final = "conmon"
"""``crio-conmon-<id>.scope``, ``libpod-conmon-<id>.scope``: the monitor beside a container."""
_RUNTIME: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,31}:/{1,2}")
_UID: Final = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
"""32 digits without a stroke: a static pod, whose uid is the hash of its manifest."""
_POD: Final = re.compile(rf"(?:.*-)?pod(?P<uid>{_UID})(?:\.slice)?")
_PODMAN_POD: Final = re.compile(r"(?:.*-)?libpod_pod_[0-9a-f]{64}(?:\.slice)?")
_PODMAN_PARENT: Final = "libpod_parent"
_VOLUMES: Final = re.compile(
    rf"/pods/(?P<uid>{_UID})/(?:etc-hosts|containers|volumes|volume-subpaths)(?:/|$)"
)
_SURE_POINTS: Final = ("/etc/hosts", "/dev/termination-log")
"""Where the kubelet mounts files of the pod's own; another pod's volumes may be mounted elsewhere."""


def container_id(name: str) -> str | None:
    """The id (64 hex digits) of the innermost container that a cgroup's name or path names."""
    for part in reversed(name.split("/")):
        match = _CONTAINER.fullmatch(part)
        if match is not None and _MONITOR not in (match["before"] or ""):
            return match["id"]
    return None


def given_id(text: str) -> str | None:
    """The id in what a user or the Kubernetes API calls a container: ``containerd://<id>``, ``<id>``.

    One stroke of the two may be missing, as where a path was made of it.
    """
    bare = _RUNTIME.sub("", text.strip(), count=1)
    match = _CONTAINER.fullmatch(bare)
    return match["id"] if match is not None and bare == match["id"] else None


def pod_uid(name: str) -> str | None:
    """The uid, written with ``-``, of the innermost Kubernetes pod that a cgroup's name names."""
    for part in reversed(name.split("/")):
        match = _POD.fullmatch(part.partition(":")[0])
        if match is not None:
            return match["uid"].replace("_", "-")
    return None


def is_pod(name: str) -> bool:
    """Whether the last part of a cgroup's name names a pod of Kubernetes or podman."""
    *above, last = name.split("/")
    if above and above[-1] == _PODMAN_PARENT:
        return True
    return _POD.fullmatch(last) is not None or _PODMAN_POD.fullmatch(last) is not None


def mounted_pod_uid(mounts: Iterable[tuple[str, str]]) -> str | None:
    """The uid of our own pod, by what the kubelet mounted into our container; None if that is not sure.

    ``mounts``: root within its file system, and mount point, of each line of ``/proc/self/mountinfo``.
    """
    found = [
        (point, match["uid"])
        for root, point in mounts
        if (match := _VOLUMES.search(root)) is not None
    ]
    sure = {uid for point, uid in found if point in _SURE_POINTS}
    uids = sure or {uid for _, uid in found}
    return uids.pop() if len(uids) == 1 else None
