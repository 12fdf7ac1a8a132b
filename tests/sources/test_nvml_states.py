"""Every state a driver can be in is a reading or a named fault, and none holds up exit."""

from pathlib import Path

import pytest

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


def test_an_old_driver_gives_what_it_has(tmp_path: Path, state: Path) -> None:
    (sample,) = samples(build(tmp_path / "old", old_driver=True), state, [TWO])
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
