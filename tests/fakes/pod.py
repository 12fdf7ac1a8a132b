"""A real pod by ``podman kube play``, from a manifest as Kubernetes takes it.

The pod has a network of its own with nothing but its loopback device.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from tests.fakes.images import IMAGE, SERVER_IMAGE
from tests.fakes.manifests import Document, pod_of
from tests.fakes.podman import Podman, remove_cgroups

ASK = "import sys, urllib.request as u; sys.stdout.write(u.urlopen({args}, timeout=5).read().decode())"
PATIENCE_S = 30.0
IMAGES = {"vllm": SERVER_IMAGE, "vllm-sidecar": IMAGE}
LIMITS = {"vllm": "64Mi", "vllm-sidecar": "128Mi"}
OFTEN = {"VLLM_SIDECAR_INTERVAL": "1s", "VLLM_SIDECAR_WINDOW": "5s"}


class Pod:
    """A running pod of the name ``vllm``, with a server and a sidecar."""

    def __init__(self, podman: Podman) -> None:
        self.podman = podman

    def ask(self, container: str, url: str, body: bytes | None = None) -> str:
        """The answer to a request from within a container; "" while nobody answers."""
        arguments = f"{url!r}" if body is None else f"{url!r}, data={body!r}"
        program = ASK.format(args=arguments)
        return self.podman("exec", container, "python", "-c", program, wanted=False)

    def order(self, text: str) -> None:
        """Tell the stand-in what to do."""
        self.ask("vllm-vllm", "http://127.0.0.1:8000/order", text.encode())

    def metrics(self) -> str:
        """The sidecar's exposition."""
        return self.ask("vllm-vllm-sidecar", "http://127.0.0.1:9477/metrics")

    def windows(self) -> list[dict[str, Any]]:
        """The sidecar's closed windows."""
        text = self.ask("vllm-vllm-sidecar", "http://127.0.0.1:9477/api/windows")
        found: list[dict[str, Any]] = json.loads(text or "[]")
        return found

    def until(self, condition: Callable[[], bool]) -> None:
        """Return once ``condition`` holds."""
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, self.account()
            time.sleep(0.2)

    def account(self) -> str:
        """For a test that fails: the containers, what they wrote, and what is shown."""
        shown = [line for line in self.metrics().splitlines() if line.endswith(" 1.0")]
        written = [self.podman("logs", f"vllm-{name}", wanted=False)[-2000:] for name in IMAGES]
        return "\n".join((self.podman("ps", "-a", wanted=False), *written, *shown))

    def shows(self, *wanted: str) -> None:
        """Return once the exposition holds all of these samples."""

        def is_there() -> bool:
            lines = self.metrics().splitlines()
            return all(f"vllm_sidecar_{sample}" in lines for sample in wanted)

        self.until(is_there)


@contextlib.contextmanager
def pod(podman: Podman, workload: Document, settings: dict[str, str] = OFTEN) -> Iterator[Pod]:
    """The pod of a workload, and nothing of it left in the end."""
    document = pod_of(workload, images=IMAGES, limits=LIMITS, settings=settings)
    manifest = podman.work / "pod.yaml"
    manifest.write_text(yaml.safe_dump(document))
    running = Pod(podman)
    identities: list[str] = []
    try:
        try:
            podman("kube", "play", "--quiet", "--network=none", manifest)
        finally:
            identities = podman("pod", "ps", "-q", "--no-trunc").split()
        yield running
    finally:
        for command in (("kube", "down", manifest), ("pod", "rm", "-fa"), ("volume", "rm", "-fa")):
            podman(*command, wanted=False)
        remove_cgroups(identities)
