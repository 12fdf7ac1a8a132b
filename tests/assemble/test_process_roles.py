"""Names as the kernel cuts them -> what a process is to the server."""

import pytest

from sidecar.assemble.process_roles import count_parties, orphans, party_of
from sidecar.model.readings import Process
from sidecar.model.vocabulary import Party


@pytest.mark.parametrize(
    ("comm", "party"),
    [
        ("vllm", Party.API_SERVER),
        ("vllm-rs", Party.API_SERVER),
        ("VLLM::APIServer", Party.API_SERVER),
        ("VLLM::EngineCor", Party.ENGINE),
        ("VLLM::EngineCore_DP0", Party.ENGINE),
        ("VLLM::DPCoordin", Party.ENGINE),
        ("VLLM::Worker", Party.WORKER),
        ("VLLM::Worker_TP", Party.WORKER),
        ("vllm-sidecar", Party.OTHER),
        ("vllm-router", Party.OTHER),
        ("python3", Party.OTHER),
        ("", Party.OTHER),
    ],
)
def test_a_name_tells_the_party(comm: str, party: Party) -> None:
    assert party_of(comm) is party


def test_every_party_is_counted_also_where_there_is_none() -> None:
    counts = count_parties([Process(1, "vllm"), Process(2, "VLLM::Worker"), Process(3, "python3")])
    assert counts == {
        Party.API_SERVER: 1,
        Party.ENGINE: 0,
        Party.WORKER: 1,
        Party.OTHER: 1,
    }


ENGINE, WORKER = Process(11, "VLLM::EngineCor", born=20), Process(12, "VLLM::Worker", born=30)
MAIN = Process(10, "vllm", born=10)
NEW = Process(50, "vllm", born=90)
NEW_ENGINE = Process(51, "VLLM::EngineCor", born=95)


@pytest.mark.parametrize(
    ("processes", "root", "count"),
    [
        ((MAIN, ENGINE, WORKER), 10, 0),
        ((ENGINE, WORKER), None, 2),
        ((Process(9, "python3", born=5), ENGINE), None, 1),
        # A server that was begun as a module bears no name; that it is the first one tells.
        ((Process(9, "python3", born=5), ENGINE), 9, 0),
        ((ENGINE, WORKER, NEW, NEW_ENGINE), 50, 2),
        # API servers are children beside the engines, and outlive the first process at times.
        ((ENGINE, Process(40, "VLLM::APIServer", born=40)), None, 0),
        ((ENGINE, Process(40, "VLLM::APIServer", born=40)), 40, 0),
        ((ENGINE, Process(40, "vllm-rs", born=40)), 40, 0),
        # Where nobody knows what is older, nothing is claimed.
        ((Process(11, "VLLM::EngineCor"), NEW), 50, 0),
        ((ENGINE, Process(50, "vllm")), 50, 0),
        ((), None, 0),
    ],
)
def test_engines_without_an_api_server_are_orphans(
    processes: tuple[Process, ...], root: int | None, count: int
) -> None:
    assert orphans(processes, root) == count


def test_an_orphan_that_holds_the_servers_port_is_no_server() -> None:
    assert orphans((ENGINE,), root=11) == 1
