"""Every state a driver can be in is a reading or a named fault, and none holds up exit."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from sidecar.model.readings import NvmlReading
from sidecar.recording.rows import read_nvml
from tests.fakes.nvml import build, samples

pytestmark = pytest.mark.component("gcc")

TWO = (
    "count 2\ngpu0.total 8000\ngpu0.used 5000\ngpu0.reserved 300\ngpu0.util 93\n"
    "gpu0.procs 123:4000,456:-1\ngpu1.total 8000\n"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def listed(gpu: dict[str, Any]) -> dict[int, int | None]:
    """Bytes by pid."""
    return {one["pid"]: one["used"] for one in gpu["processes"]}


def test_memory_load_and_processes_are_read(library: Path, state: Path) -> None:
    (sample,) = samples(library, state, [TWO])
    assert sample["fault"] is None
    assert sample["reading"]["driver"] == "550.54.15"
    first, second = sample["reading"]["gpus"]
    assert first == {
        "index": 0, "uuid": "GPU-00000000", "name": "Fake GPU 0",
        "total": 8000, "used": 5000, "free": 2700, "reserved": 300, "utilization": 0.93,
        "processes": [{"pid": 123, "used": 4000}, {"pid": 456, "used": None}],
        "mig": False, "lost": False,
    }  # fmt: skip
    assert (second["used"], second["processes"]) == (0, [])


def test_only_the_chosen_gpus_are_read(library: Path, state: Path) -> None:
    chosen, missing = (samples(library, state, [TWO], indexes=indexes)[0] for indexes in ([1], [5]))
    assert [gpu["index"] for gpu in chosen["reading"]["gpus"]] == [1]
    assert missing["fault"] == "absent"


def test_what_cannot_change_is_asked_once_and_anew_of_a_driver_that_failed(
    library: Path, state: Path
) -> None:
    unasked = "fail.nvmlSystemGetDriverVersion 999\nfail.nvmlDeviceGetUUID 999\n"
    first, kept, failed, asked, back = samples(
        library,
        state,
        [TWO, TWO + unasked, TWO + "fail.nvmlDeviceGetCount_v2 999\n", TWO + unasked, TWO],
    )
    assert kept["reading"] == first["reading"] == back["reading"]
    assert failed["fault"] == asked["fault"] == "io_error"


def test_an_old_driver_gives_what_it_has(tmp_path: Path, state: Path) -> None:
    (sample,) = samples(build(tmp_path / "old", driver=470), state, [TWO])
    gpu = sample["reading"]["gpus"][0]
    assert (gpu["used"], gpu["free"], gpu["reserved"]) == (5300, 2700, None)
    assert [one["pid"] for one in gpu["processes"]] == [123, 456]


def test_a_lost_gpu_is_marked_and_its_neighbour_still_read(library: Path, state: Path) -> None:
    fine, lost, fallen, back = samples(
        library, state, [TWO, TWO + "gpu0.fail 15\n", TWO + "count 1\n", TWO]
    )
    assert fine["reading"]["gpus"][0]["lost"] is False
    first, second = lost["reading"]["gpus"]
    assert (first["lost"], first["uuid"], first["used"]) == (True, "GPU-00000000", None)
    assert (second["lost"], second["total"]) == (False, 8000)
    assert [gpu["lost"] for gpu in fallen["reading"]["gpus"]] == [False, True]
    assert [gpu["lost"] for gpu in back["reading"]["gpus"]] == [False, False]


def test_what_a_gpu_does_not_support_is_unknown_and_not_zero(library: Path, state: Path) -> None:
    refusals = (
        "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
    )  # fmt: skip
    text = TWO + "gpu0.mig 1\n" + "".join(f"fail.{name} 3\n" for name in refusals)
    gpu = samples(library, state, [text])[0]["reading"]["gpus"][0]
    assert gpu["mig"] is True
    unknown = ("total", "used", "free", "reserved", "utilization", "processes")
    assert [gpu[name] for name in unknown] == [None] * 6


def test_a_driver_without_the_lists_is_no_fault(tmp_path: Path, state: Path) -> None:
    (sample,) = samples(build(tmp_path / "oldest", driver=450), state, [TWO])
    gpu = sample["reading"]["gpus"][0]
    assert (sample["fault"], gpu["used"], gpu["processes"]) == (None, 5300, None)


def test_who_draws_or_shares_is_listed_too_and_once(library: Path, state: Path) -> None:
    kinds = (
        "gpu1.procs 123:4000,7:100\ngpu1.graphics 123:4500,8:-1,9:50\ngpu1.mps 9:60,10:70\n"
        "fail.nvmlDeviceGetMPSComputeRunningProcesses_v2 999\n"
    )
    failing = kinds + "fail.nvmlDeviceGetGraphicsRunningProcesses_v3 999\n"
    given = samples(library, state, [TWO + kinds, TWO + failing], indexes=[1])
    every, fewer = (listed(sample["reading"]["gpus"][0]) for sample in given)
    assert every == {123: 4500, 7: 100, 8: None, 9: 60, 10: 70}
    assert fewer == {123: 4000, 7: 100, 9: 60, 10: 70}


def test_processes_come_and_go(library: Path, state: Path) -> None:
    texts = ["gpu0.procs 1:10\n", "gpu0.procs 1:10,2:20\n", "gpu0.procs 2:30\n", ""]
    given = samples(library, state, list(texts))
    found = [listed(sample["reading"]["gpus"][0]) for sample in given]
    assert found == [{1: 10}, {1: 10, 2: 20}, {2: 30}, {}]


@pytest.mark.parametrize("figure", ["nvmlDeviceGetMigMode", "nvmlDeviceGetUUID"])
def test_a_figure_without_the_right_to_it_hides_no_other(
    library: Path, state: Path, figure: str
) -> None:
    gpu = samples(library, state, [TWO + f"fail.{figure} 4\n"])[0]["reading"]["gpus"][0]
    assert (gpu["used"], gpu["mig"], listed(gpu)) == (5000, False, {123: 4000, 456: None})


MIG = (
    "gpu0.mig 1\ngpu0.total 8000\ngpu0.used 5000\ngpu0.procs 5:5000\n"
    "gpu0.mig0.total 4000\ngpu0.mig0.used 1500\ngpu0.mig0.reserved 20\ngpu0.mig0.procs 1:1400\n"
    "gpu0.mig1.total 2000\ngpu0.mig1.used 300\ngpu0.mig1.reserved 10\ngpu0.mig1.procs 2:200,3:-1\n"
)


def test_instances_of_a_card_stand_for_it(library: Path, state: Path) -> None:
    one, two = samples(library, state, [MIG + "gpu0.instances 1\n", MIG + "gpu0.instances 2\n"])
    figures = ("mig", "total", "used", "free", "reserved", "utilization")
    first, both = one["reading"]["gpus"][0], two["reading"]["gpus"][0]
    assert [first[name] for name in figures] == [True, 4000, 1500, 2480, 20, 0.0]
    assert [both[name] for name in figures] == [True, 6000, 1800, 4170, 30, 0.0]
    assert (listed(first), listed(both)) == ({1: 1400}, {1: 1400, 2: 200, 3: None})


def test_a_card_whose_instances_are_not_given_shows_its_own_figures(
    library: Path, state: Path
) -> None:
    refused = "gpu0.instances 2\nfail.nvmlDeviceGetMaxMigDeviceCount 3\n"
    for text in (MIG, MIG + refused):
        gpu = samples(library, state, [text])[0]["reading"]["gpus"][0]
        assert (gpu["mig"], gpu["used"], listed(gpu)) == (True, 5000, {5: 5000})


def test_an_instance_that_may_not_be_read_leaves_the_card_unknown(
    library: Path, state: Path
) -> None:
    refused = (
        "gpu0.instances 2\nfail.nvmlDeviceGetComputeRunningProcesses_v3 4\n"
        "fail.nvmlDeviceGetComputeRunningProcesses_v2 4\n"
        "fail.nvmlDeviceGetMemoryInfo_v2 4\nfail.nvmlDeviceGetMemoryInfo 4\n"
    )
    gpu = samples(library, state, [MIG + refused])[0]["reading"]["gpus"][0]
    assert [gpu[name] for name in ("total", "used", "free", "processes")] == [None] * 4


def test_a_size_that_cannot_be_is_unknown(library: Path, state: Path) -> None:
    text = f"count 1\ngpu0.total 8000\ngpu0.used 9000\ngpu0.procs 1:-2,2:{1 << 50},3:5\n"
    gpu = samples(library, state, [text])[0]["reading"]["gpus"][0]
    assert (gpu["total"], gpu["used"], gpu["free"]) == (8000, 9000, None)
    assert listed(gpu) == {1: None, 2: None, 3: 5}


def test_an_instance_that_is_lost_loses_the_card(library: Path, state: Path) -> None:
    text = MIG + "gpu0.instances 2\n"
    fine, lost = samples(library, state, [text, text + "gpu0.mig1.fail 15\n"])
    assert [one["reading"]["gpus"][0]["lost"] for one in (fine, lost)] == [False, True]


def test_a_recorded_row_reads_back_as_it_was(library: Path, state: Path) -> None:
    for sample in samples(library, state, [TWO, TWO + "gpu1.mig 1\n", TWO + "gpu0.fail 15\n"]):
        reading = read_nvml(sample["row"])
        assert isinstance(reading, NvmlReading)
        assert json.loads(json.dumps(asdict(reading))) == sample["reading"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("fail.nvmlInitWithFlags 9", "no_driver"),
        ("fail.nvmlInitWithFlags 18", "no_driver"),
        ("fail.nvmlInitWithFlags 4", "denied"),
        ("fail.nvmlSystemGetDriverVersion 15", "device_lost"),
        ("fail.nvmlDeviceGetCount_v2 999", "io_error"),
        ("fail.nvmlDeviceGetHandleByIndex_v2 4", "denied"),
    ],
)
def test_a_failing_driver_is_a_fault_until_it_is_back(
    library: Path, state: Path, line: str, fault: str
) -> None:
    failed, back = samples(library, state, [TWO + line + "\n", TWO])
    assert (failed["fault"], back["fault"]) == (fault, None)


def test_a_hung_driver_times_out_then_is_busy_then_recovers(library: Path, state: Path) -> None:
    hung = TWO + "hang_ms.nvmlDeviceGetCount_v2 1000\n"
    given = samples(library, state, [hung, TWO, 2.0, TWO], limit_s=0.3)
    assert [one["fault"] for one in given] == ["timeout", "busy", None]


def test_a_driver_that_hangs_for_ever_does_not_hold_up_exit(library: Path, state: Path) -> None:
    hung = TWO + "hang_ms.nvmlInitWithFlags 900000\n"
    assert [one["fault"] for one in samples(library, state, [hung], limit_s=0.1)] == ["timeout"]
