"""The status of one pod as the kubelet writes it while containers run, end, wait and run again."""

import json
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
UID = "0f6e1a52-7a0e-4b46-9a53-0d2b0a1f8c11"
EPOCH = 1_769_853_600
"""2026-01-31T10:00:00Z."""


def moment(second: int) -> str:
    return f"2026-01-31T10:{second // 60:02}:{second % 60:02}Z"


def container_id(name: str, run: int) -> str:
    return f"{run:02}{name.encode().hex():0<62}"[:64]


@dataclass
class FakeContainer:
    """One container; ``run`` counts from 0."""

    name: str
    run: int = 0
    state: str = "running"
    code: int = 0
    reason: str = "Completed"
    second: int = 0
    last: Json = field(default_factory=dict)

    @property
    def present_id(self) -> str:
        return container_id(self.name, self.run)

    def end(self, code: int = 1, reason: str = "Error", second: int = 5) -> None:
        assert self.state == "running"
        self.state, self.code, self.reason, self.second = "terminated", code, reason, second

    def back_off(self) -> None:
        """Wait to be started again: the run that ended is told as the last one, under its own id."""
        assert self.state == "terminated"
        self.last = self.terminated()
        self.state = "waiting"

    def restart(self) -> None:
        if self.state == "terminated":
            self.last = self.terminated()
        assert self.state != "running"
        self.state = "running"
        self.run += 1

    def terminated(self) -> Json:
        return {
            "terminated": {
                "containerID": f"containerd://{self.present_id}",
                "exitCode": self.code,
                "finishedAt": moment(self.second),
                "message": "SECRET-CANARY of a user",
                "reason": self.reason,
                "startedAt": moment(0),
            }
        }

    def status(self) -> Json:
        states: dict[str, Json] = {
            "running": {"running": {"startedAt": moment(0)}},
            "waiting": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        }
        return {
            "containerID": f"containerd://{self.present_id}",
            "image": "registry.example/vllm:v0.32.0",
            "imageID": "registry.example/vllm@sha256:00",
            "lastState": self.last,
            "name": self.name,
            "ready": self.state == "running",
            "restartCount": self.run,
            "started": self.state == "running",
            "state": states.get(self.state) or self.terminated(),
        }


class FakePod:
    """Our pod: a server and ourselves, which is an init container that runs on beside it."""

    def __init__(self, *beside: str) -> None:
        self.uid = UID
        self.version = 100
        self.deleting = False
        self.server = FakeContainer("vllm")
        self.ours = FakeContainer("sidecar")
        self.beside = [FakeContainer(name) for name in beside]

    def json(self) -> Json:
        deleting = {"deletionTimestamp": moment(9)} if self.deleting else {}
        regular = [self.server, *self.beside]
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "vllm-0",
                "namespace": "lab",
                "uid": self.uid,
                "resourceVersion": str(self.version),
                "annotations": {"note": "SECRET-CANARY"},
                **deleting,
            },
            "spec": {
                "containers": [{"name": one.name} for one in regular],
                "initContainers": [
                    {"name": "fetch-model"},
                    {"name": self.ours.name, "restartPolicy": "Always"},
                ],
            },
            "status": {
                "phase": "Running",
                "containerStatuses": [one.status() for one in regular],
                "initContainerStatuses": [
                    {
                        **FakeContainer("fetch-model").status(),
                        "state": FakeContainer("fetch-model").terminated(),
                    },
                    self.ours.status(),
                ],
            },
        }

    def text(self) -> bytes:
        return json.dumps(self.json()).encode()
