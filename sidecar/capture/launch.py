"""The command line and the environment of a running process, from ``/proc``; blocks."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sidecar.parse.launch import Launch, describe_launch
from sidecar.parse.secrets import Secrets, secrets_of_argv, secrets_of_environment

_MOST = 1 << 20
"""Bytes read of each: the kernel's own limit for one argument is 128 KiB."""


@dataclass(frozen=True, slots=True)
class Found:
    """A launch. ``is_whole``: its environment was read, too, so that its secrets are known."""

    launch: Launch
    is_whole: bool


def read_launch(pid: int, secrets: Secrets, proc_root: Path = Path("/proc")) -> Found | None:
    """How a process was started, and its secrets learnt; None if it cannot be read.

    The environment is readable to the same user and to root only; without it the command line is told.
    """
    argv = _words(proc_root / str(pid) / "cmdline")
    if not argv:
        return None
    environment = {
        name: value
        for word in _words(proc_root / str(pid) / "environ")
        for name, equals, value in [word.partition("=")]
        if equals
    }
    return Found(learn_launch(argv, environment, secrets), is_whole=bool(environment))


def learn_launch(argv: list[str], environment: Mapping[str, str], secrets: Secrets) -> Launch:
    """What may be told of a launch; its secrets are hidden from now on wherever they stand."""
    secrets.learn(secrets_of_argv(argv))
    secrets.learn(secrets_of_environment(environment))
    return describe_launch(argv, environment)


def _words(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST)
    except OSError:
        return []
    return [os.fsdecode(word) for word in data.rstrip(b"\0").split(b"\0")] if data else []
