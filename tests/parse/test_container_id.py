"""Whose cgroup a name names, in the words of each runtime and driver."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.parse.container_id import container_id, given_id, is_pod, mounted_pod_uid, pod_uid

ID = "4fa6e0f0c6786287e131c3852c58a2e01cc697a68231826813597e4994f1d6e2"
OTHER = "0" * 63 + "a"
UID = "2fee0b93-3b8f-4f0e-9d5e-3c1c2b9cbb21"
STATIC = "5c1f1b1b8c2f7cbd7ac0d3fb2b7a2d11"
SYSTEMD = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"


@pytest.mark.parametrize(
    "name",
    [
        ID,
        f"/docker/{ID}",
        f"/system.slice/docker-{ID}.scope",
        f"/kubepods.slice/kubepods-burstable.slice/{SYSTEMD}/cri-containerd-{ID}.scope",
        f"/kubepods/burstable/pod{UID}/{ID}",
        f"/kubepods/burstable/pod{UID}/crio-{ID}",
        f"/kubepods.slice/{SYSTEMD}/crio-{ID}.scope/container",
        f"/machine.slice/libpod-{ID}.scope/container",
        f"/libpod_parent/{OTHER}/libpod-{ID}",
        f"/system.slice/containerd.service/{SYSTEMD}:cri-containerd:{ID}",
        f"/docker/{OTHER}/kubelet.slice/kubelet-kubepods.slice/x.slice/cri-containerd-{ID}.scope",
        f"/ecs/0123456789abcdef/{ID}",
        f"/../cri-containerd-{ID}.scope",
        f"cri-containerd-{ID}.scope",
    ],
)
def test_the_innermost_container_is_named(name: str) -> None:
    assert container_id(name) == ID


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "/system.slice/vllm.service",
        f"/machine.slice/libpod-conmon-{ID}.scope",
        f"/kubepods.slice/{SYSTEMD}/crio-conmon-{ID}.scope",
        f"/machine.slice/machine-libpod_pod_{ID}.slice",
        f"/kubepods.slice/{SYSTEMD}",
        f"/docker/{ID[:-1]}",
        f"/docker/{ID}a",
        f"/docker/{ID.upper()}",
        f"/docker/{ID}\n",
    ],
)
def test_what_is_no_container_has_no_id(name: str) -> None:
    assert container_id(name) is None


@pytest.mark.parametrize("scheme", ["", "containerd://", "docker://", "cri-o://", "containerd:/"])
def test_an_id_is_given_as_the_api_writes_it(scheme: str) -> None:
    assert given_id(f"{scheme}{ID}") == ID


@pytest.mark.parametrize(
    "text", ["", "/sys/fs/cgroup/x", f"/docker/{ID}", f"docker-{ID}.scope", ID[:12], "docker://"]
)
def test_a_path_or_a_short_id_is_no_id(text: str) -> None:
    assert given_id(text) is None


@pytest.mark.parametrize(
    ("name", "uid"),
    [
        (f"/kubepods.slice/kubepods-burstable.slice/{SYSTEMD}", UID),
        (f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/crio-{ID}.scope", UID),
        (f"/kubelet.slice/kubelet-kubepods.slice/kubelet-{SYSTEMD}", UID),
        (f"/kubepods/besteffort/pod{UID}/{ID}", UID),
        (f"/kubepods/burstable/pod{STATIC}", STATIC),
        (f"/system.slice/containerd.service/{SYSTEMD}:cri-containerd:{ID}", UID),
        (f"/docker/{ID}", None),
        ("/kubepods/burstable/podium", None),
    ],
)
def test_a_pods_uid_is_written_with_strokes(name: str, uid: str | None) -> None:
    assert pod_uid(name) == uid


@pytest.mark.parametrize(
    ("name", "pod"),
    [
        (f"/kubepods.slice/kubepods-burstable.slice/{SYSTEMD}", True),
        (f"/kubepods/burstable/pod{UID}", True),
        (f"/machine.slice/machine-libpod_pod_{ID}.slice", True),
        (f"/libpod_parent/{ID}", True),
        (f"/kubepods/burstable/pod{UID}/{ID}", False),
        ("/kubepods/burstable", False),
        ("/user.slice/user-0.slice", False),
        (f"/system.slice/containerd.service/{SYSTEMD}:cri-containerd:{ID}", False),
        ("/", False),
    ],
)
def test_a_pod_is_told_from_a_slice_and_a_container(name: str, *, pod: bool) -> None:
    assert is_pod(name) is pod


OURS = f"/var/lib/kubelet/pods/{UID}"
ANOTHER = "9e11b1a4-0b2a-4d9c-8b52-4f4f8b3a1f10"


@pytest.mark.parametrize(
    ("mounts", "uid"),
    [
        ([("/", "/"), (f"{OURS}/etc-hosts", "/etc/hosts")], UID),
        ([(f"/pods/{UID}/containers/sidecar/1a2b3c4d", "/dev/termination-log")], UID),
        ([(f"{OURS}/volumes/kubernetes.io~empty-dir/logs", "/log")], UID),
        ([(f"/k0s/kubelet/pods/{ANOTHER}/volumes/x", "/x"), (f"{OURS}/etc-hosts", "/etc/hosts")], UID),
        ([(f"/a/pods/{ANOTHER}/volumes/x", "/x"), (f"{OURS}/volumes/y", "/y")], None),
        ([("/var/log/pods/ns_name_uid/ctr", "/logs")], None),
        ([], None),
    ],
)  # fmt: skip
def test_our_pod_is_known_by_what_the_kubelet_mounted(
    mounts: list[tuple[str, str]], uid: str | None
) -> None:
    assert mounted_pod_uid(mounts) == uid


@given(st.text(), st.text())
def test_any_text_is_read_without_an_error(name: str, point: str) -> None:
    for found in (container_id(name), given_id(name), pod_uid(name)):
        assert found is None or found in name.replace("_", "-") or found in name
    is_pod(name)
    mounted_pod_uid([(name, point)])
