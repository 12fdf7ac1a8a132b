"""The image, built for real, and run with no right at all."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from sidecar import __version__
from tests.fakes.deploy_tools import run_tool
from tests.fakes.images import IMAGE, ROOT, SERVER_IMAGE, base_name
from tests.fakes.podman import Podman

DOCKERFILE = ROOT / "Dockerfile"
LOCK = ROOT / "requirements.lock"
HARDENED = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
)
OFTEN = ("--env=VLLM_SIDECAR_INTERVAL=1s", "--env=VLLM_SIDECAR_WINDOW=5s")
ASK = "import sys, urllib.request as u; sys.stdout.write(u.urlopen({url!r}, timeout=5).read().decode())"
PATIENCE_S = 40.0
OURS_MOST = 60_000_000
"""Bytes that we add to the base; 49 million were measured."""
Test = TypeVar("Test", bound=Callable[..., None])
NEEDED = ("root", "podman", "image_base")
PLATFORMS = ("aarch64", "x86_64")


def needs_image(test: Test) -> Test:
    """Mark a test; the first one that needs the image builds it."""
    for mark in (*map(pytest.mark.component, NEEDED), pytest.mark.timeout(300)):
        test = mark(test)
    return test


def locked(path: Path) -> dict[str, str]:
    """The packages of a lock, and their versions."""
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;]+)", path.read_text(), re.MULTILINE))


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.3)


@contextmanager
def running(images: Podman, *arguments: str) -> Iterator[str]:
    """A container that runs meanwhile."""
    identity = images("run", "-d", *arguments).strip()
    try:
        yield identity
    finally:
        images("rm", "-f", identity, wanted=False)


@contextmanager
def beside_a_server(images: Podman, *options: str) -> Iterator[str]:
    """Our container in the network of a server's, with the image's own command."""
    with running(images, "--network=none", SERVER_IMAGE) as server:
        network = f"--network=container:{server}"
        with running(images, network, *HARDENED, *OFTEN, *options, IMAGE) as identity:
            yield identity


def python(images: Podman, program: str) -> str:
    """What a program prints in a container of the image."""
    return once(images, "--entrypoint=python", IMAGE, "-c", program)


def once(images: Podman, *arguments: str) -> str:
    """What a container prints that ends by itself."""
    return images("run", "--rm", "--network=none", "--no-healthcheck", *arguments)


def settings_of(images: Podman) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(images("inspect", IMAGE))[0]
    return told


@needs_image
@pytest.mark.parametrize("options", [(), ("--user=2000:0",)])
def test_with_no_right_at_all_it_names_windows_over_http(
    images: Podman, options: tuple[str, ...]
) -> None:
    with beside_a_server(images, *options) as ours:
        ask = ASK.format(url="http://127.0.0.1:9477/metrics")

        def metrics() -> str:
            return images("exec", ours, "python", "-c", ask, wanted=False)

        until(lambda: 'vllm_sidecar_target_state{state="serving"} 1.0' in metrics())
        until(lambda: re.search(r'windows_total\{verdict="none"\} [1-9]', metrics()) is not None)

        user = images("exec", ours, "python", "-c", "import os; print(os.getuid(), os.getgid())")
        assert user.split() == (["2000", "0"] if options else ["10001", "10001"])
        images("stop", "--time=20", ours)
        assert images("inspect", "--format={{.State.ExitCode}}", ours).strip() == "0"


@needs_image
def test_its_health_check_passes_while_it_lives_and_fails_before(images: Podman) -> None:
    with running(images, "--network=none", *HARDENED, IMAGE) as ours:
        until(lambda: images.run("healthcheck", "run", ours).returncode == 0)
        assert images("inspect", "--format={{.State.Health.Status}}", ours).strip() == "healthy"
    with running(images, "--network=none", *HARDENED, IMAGE, "run", "--listen=:1") as ours:
        assert images.run("healthcheck", "run", ours).returncode != 0


@needs_image
def test_no_shell_stands_between_the_runtime_and_the_daemon(images: Podman) -> None:
    told = settings_of(images)
    settings = told["Config"]

    assert (settings["Entrypoint"], settings["Cmd"]) == (["vllm-sidecar"], ["run"])
    assert told["Healthcheck"]["Test"][0] == "CMD"
    assert settings["User"] == "10001:10001"
    with running(images, "--network=none", *HARDENED, IMAGE) as ours:
        words = images("exec", ours, "cat", "/proc/1/cmdline").split("\0")
        assert words[:3] == ["/opt/venv/bin/python", "/opt/venv/bin/vllm-sidecar", "run"]


@needs_image
def test_check_says_what_cannot_be_seen_from_an_empty_container(images: Podman) -> None:
    done = images.run("run", "--rm", "--network=none", *HARDENED, IMAGE, "check")

    assert done.returncode == 1
    assert "host_oom: cannot be observed" in done.stdout


@needs_image
def test_a_volume_for_the_state_can_be_written(images: Podman) -> None:
    state = (
        "--volume=state:/var/lib/vllm-sidecar",
        "--env=VLLM_SIDECAR_STATE_DIR=/var/lib/vllm-sidecar",
    )
    with running(images, "--network=none", *HARDENED, *state, IMAGE) as ours:
        found = "import os; print(any(n.endswith('.json') for n in os.listdir('/var/lib/vllm-sidecar')))"
        until(lambda: images("exec", ours, "python", "-c", found, wanted=False).strip() == "True")


@needs_image
def test_the_bill_of_materials_lists_what_is_installed(images: Podman) -> None:
    bill = json.loads(
        once(images, "--entrypoint=cat", IMAGE, "/usr/share/vllm-sidecar/sbom.cdx.json")
    )

    assert bill["bomFormat"] == "CycloneDX"
    listed = {
        re.sub("[._]", "-", one["name"].lower()): one["version"] for one in bill["components"]
    }
    assert listed == locked(LOCK)
    assert bill["metadata"]["component"]["name"] == "vllm-sidecar"
    program = (
        "import importlib.metadata as m, json;"
        "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}))"
    )
    installed = json.loads(python(images, program))
    assert {re.sub("[._]", "-", name.lower()) for name in installed} == {*listed, "vllm-sidecar"}


@needs_image
def test_nothing_is_in_it_that_it_does_not_run(images: Podman) -> None:
    program = (
        "import importlib.util as u, os, pathlib, sidecar;"
        "print([n for n in ('pip', 'setuptools', 'wheel', 'ensurepip', 'tests') if u.find_spec(n)]);"
        "here = pathlib.Path(sidecar.__file__).parents[1];"
        "sources = list(here.rglob('*.py'));"
        "print(len(sources) > 400 and all((p.parent / '__pycache__' / f'{p.stem}.cpython-311.pyc').exists() for p in sources));"
        "print([str(p) for p in here.rglob('*') if os.access(p, os.W_OK)][:3])"
    )
    assert python(images, program).splitlines() == ["[]", "True", "[]"]
    sizes = settings_of(images)["Size"] - json.loads(images("inspect", base_name()))[0]["Size"]
    assert 0 < sizes < OURS_MOST


@needs_image
def test_its_labels_say_what_it_is(images: Podman) -> None:
    labels = settings_of(images)["Labels"]

    about = {
        name.removeprefix("org.opencontainers.image."): value for name, value in labels.items()
    }
    assert about["title"] == "vllm-sidecar"
    assert about["licenses"] == "Apache-2.0"
    assert about["base.name"] == base_name()
    assert about["version"] == __version__
    assert about["revision"] == "unknown"
    assert once(images, IMAGE, "--version").split()[-1] == about["version"]


def test_its_base_is_pinned_to_a_patch_level_and_can_be_named_otherwise() -> None:
    text = DOCKERFILE.read_text()

    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", base_name())
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}


@pytest.mark.component("deploy_tools")
def test_a_linter_has_nothing_to_say() -> None:
    done = run_tool("hadolint", DOCKERFILE)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    bad = run_tool("hadolint", "-", given="FROM python\nRUN pip install aiohttp\n")
    assert bad.returncode != 0


@pytest.mark.component("deploy_tools")
@pytest.mark.parametrize("platform", PLATFORMS)
def test_everything_has_a_wheel_for_each_platform(tmp_path: Path, platform: str) -> None:
    """pip downloads each, compares it with the lock, and installs nothing."""
    for lock in ("requirements.lock", "requirements-image.lock"):
        done = run_tool(
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--no-deps",
            "--ignore-installed",
            f"--target={tmp_path}",
            "--only-binary=:all:",
            "--implementation=cp",
            "--python-version=3.11",
            f"--platform=manylinux2014_{platform}",
            f"--platform=manylinux_2_28_{platform}",
            "--require-hashes",
            f"--requirement={ROOT / lock}",
        )
        assert done.returncode == 0, done.stderr[-2000:]
