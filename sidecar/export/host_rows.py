"""Rows about the host: memory of the server's control group, its limits, and its processes."""

from collections.abc import Iterable

from sidecar.catalog import exported
from sidecar.export.bounded import Row, Scene
from sidecar.model.readings import CgroupReading
from sidecar.model.vocabulary import Party


def cgroup_of(scene: Scene) -> CgroupReading | None:
    """The control group's reading while the group is there."""
    cgroup = scene.report.cgroup
    return None if cgroup is None or cgroup.gone else cgroup


def memory_rows(scene: Scene) -> Iterable[Row]:
    """Memory of the control group, and what of it cannot be moved."""
    cgroup, processes = cgroup_of(scene), scene.report.processes
    known = {} if processes is None else {"pinned": processes.pinned}
    if cgroup is not None:
        known |= {
            "current": cgroup.current,
            "limit": cgroup.limit,
            "peak": cgroup.peak,
            "reclaimable": cgroup.reclaimable,
            "shmem": cgroup.shmem,
            "unevictable": cgroup.unevictable,
        }
    return [(values, known.get(values[0])) for values in exported.HOST_MEMORY.combinations]


def headroom_rows(scene: Scene) -> Iterable[Row]:
    """Bytes up to each limit that is known."""
    outlook = scene.report.outlook
    rooms = {} if outlook is None else outlook.headroom
    return [((limit.value,), rooms.get(limit)) for limit in exported.HOST_LIMITS]


def growth_rows(scene: Scene) -> Iterable[Row]:
    """How fast the control group grows."""
    outlook = scene.report.outlook
    return [((), None if outlook is None else outlook.growth)]


def time_rows(scene: Scene) -> Iterable[Row]:
    """When the nearest limit is met."""
    outlook = scene.report.outlook
    return [((), None if outlook is None else outlook.time_to_limit_s)]


def event_rows(scene: Scene) -> Iterable[Row]:
    """Events of the control group that this kernel counts."""
    cgroup = cgroup_of(scene)
    if cgroup is None:
        return []
    return [((event,), cgroup.events.get(event)) for event in exported.HOST_EVENTS]


def pressure_rows(scene: Scene) -> Iterable[Row]:
    """Pressure on the control group, where the kernel measures it."""
    cgroup = cgroup_of(scene)
    if cgroup is None:
        return []
    return [((scope,), cgroup.pressure.get(scope)) for scope in ("some", "full")]


def process_rows(scene: Scene) -> Iterable[Row]:
    """The server's processes by their role."""
    processes = scene.report.processes
    if processes is None:
        return []
    return [((party.value,), processes.parties.get(party, 0)) for party in Party]


def orphan_rows(scene: Scene) -> Iterable[Row]:
    """Engine processes without an API server."""
    processes = scene.report.processes
    return [((), None if processes is None else processes.orphaned)]
