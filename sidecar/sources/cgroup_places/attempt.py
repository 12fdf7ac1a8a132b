"""What one way to the cgroup gave: a closed word where it led nowhere."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from sidecar.model.vocabulary import Fault, Way
from sidecar.sources.cgroup_places.directory import Directory
from sidecar.sources.cgroup_places.mounts import Member, Mount, memory_version


class Attempt(StrEnum):
    """How one way ended.

    ``outside``: the cgroup is in no mount that we see. ``no_id``, ``no_pod``: the names at hand hold
    none. ``uncounted``: it is there but does not count the kills of those below. ``alone``: nobody
    but ourselves is in it.
    """

    FOUND = "found"
    NO_PROCESS = "no_process"
    DENIED = "denied"
    NO_CONTROLLER = "no_controller"
    OUTSIDE = "outside"
    NO_ID = "no_id"
    NO_POD = "no_pod"
    UNCOUNTED = "uncounted"
    ALONE = "alone"
    ABSENT = "absent"


FAULTS: Final[Mapping[Attempt, Fault]] = {
    Attempt.DENIED: Fault.DENIED,
    Attempt.OUTSIDE: Fault.DENIED,
    Attempt.NO_CONTROLLER: Fault.UNSUPPORTED,
    Attempt.UNCOUNTED: Fault.UNSUPPORTED,
}
"""All others say that it is not there."""


def shown(mounts: Sequence[Mount], member: Member, way: Way) -> Directory | Attempt:
    """The cgroup of this name in the first mount that shows it."""
    for mount in mounts:
        path = mount.holds(member.name)
        if path is not None and memory_version(path) == member.version:
            return Directory(member.version, path, member.name, way)
    return Attempt.OUTSIDE
