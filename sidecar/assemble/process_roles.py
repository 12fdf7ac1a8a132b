"""The name of a process, as the kernel keeps it -> what the process is to the server. Pure.

The kernel cuts names at 15 characters (``TASK_COMM_LEN``). vLLM names its processes since 0.10.1;
before, all but the first are ``python`` or ``python3`` and cannot be told from anybody else's.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from sidecar.model.readings import Process
from sidecar.model.vocabulary import Party

PARTIES = (
    ("VLLM::APIServer", Party.API_SERVER),
    ("VLLM::EngineCor", Party.ENGINE),
    # It hands requests to the engines of a data-parallel server, which dies with it.
    ("VLLM::DPCoordin", Party.ENGINE),
    ("VLLM::Worker", Party.WORKER),
    # Programs that run beside a server, and are none.
    ("vllm-sidecar", Party.OTHER),
    ("vllm-router", Party.OTHER),
    ("vllm", Party.API_SERVER),
)
"""Beginnings of names, the first that fits decides. ``vllm`` is the command itself; ``vllm-rs`` the
front end in Rust of 0.32."""
ANY = ("VLLM::", "vllm")
"""Beginnings of all of these: what bears another name needs no second look."""
MAIN_COMM = "vllm"
"""The first process of a server. Other API servers are its children, and may be younger than its
engines."""
ENGINES = frozenset({Party.ENGINE, Party.WORKER})
PARTIES_OF_ALL = tuple(Party)


@lru_cache(maxsize=256)
def party_of(comm: str) -> Party:
    """What a process of this name is to the server; asked of the same few names all the time."""
    if not comm.startswith(ANY):
        return Party.OTHER
    return next((party for prefix, party in PARTIES if comm.startswith(prefix)), Party.OTHER)


def is_engine(process: Process) -> bool:
    """Whether a process makes tokens, and so holds the memory for them."""
    return party_of(process.comm) in ENGINES


def count_parties(processes: Iterable[Process]) -> Mapping[Party, int]:
    """How many processes there are of each party; every party is there."""
    counts = dict.fromkeys(PARTIES_OF_ALL, 0)
    for process in processes:
        counts[party_of(process.comm)] += 1
    return counts


def orphans_among(processes: Iterable[Process], root: int | None = None) -> tuple[Process, ...]:
    """Engine processes that no API server of these belongs to: they hold their memory for nobody.

    ``root``: pid of the server's first process, which may bear any name. An engine that is older than
    every first process is that of an earlier server.
    """
    every = tuple(processes)
    engines = tuple(one for one in every if is_engine(one))
    servers = [one for one in every if one not in engines and is_server(one, root)]
    if not servers:
        return engines
    firsts = [one.born for one in servers if one.comm == MAIN_COMM or is_unnamed(one)]
    born = [one for one in firsts if one is not None]
    if not born or len(born) < len(firsts):
        return ()
    return tuple(one for one in engines if one.born is not None and one.born < min(born))


def is_server(process: Process, root: int | None) -> bool:
    """Whether a process answers requests: by its name, or as the first one of the tree."""
    return process.pid == root or party_of(process.comm) is Party.API_SERVER


def is_unnamed(process: Process) -> bool:
    """Whether a process bears no name of vLLM's, as ``python -m vllm...`` does."""
    return party_of(process.comm) is Party.OTHER


def orphans(processes: Iterable[Process], root: int | None = None) -> int:
    """How many engine processes live without an API server; see ``orphans_among``."""
    return len(orphans_among(processes, root))
