"""The real bindings' readings of a stand-in driver -> whose memory it is."""

from pathlib import Path

import pytest

from sidecar.assemble.gpus import Gpus
from sidecar.model.budget import Sight
from sidecar.model.readings import NvmlReading, Process, ProcessReading
from sidecar.model.samples import Instant
from sidecar.recording.rows import read_nvml
from tests.fakes.nvml import build, samples

pytestmark = pytest.mark.component("gcc")

GIB = 1 << 30
CARD = f"gpu0.total {80 * GIB}\ngpu0.reserved {GIB}\n"
OURS = f"gpu0.used {60 * GIB}\ngpu0.procs 2:{60 * GIB}\n"
SERVER = ProcessReading((Process(1, "vllm"), Process(2, "VLLM::EngineCor")), root=1)

Told = tuple[Sight, int | None, int | None, bool]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


def told(library: Path, state: Path, texts: list[str | float], limit_s: float = 10.0) -> list[Told]:
    """What is known of the first GPU after each sample, in GiB."""
    seen, found = Gpus(), []
    for sample in samples(library, state, texts, limit_s=limit_s):
        seen.see_processes(SERVER)
        if sample["fault"] is None:
            reading = read_nvml(sample["row"])
            assert isinstance(reading, NvmlReading)
            seen.feed(reading, Instant(0, 0), serves=True)
        else:
            seen.miss()
        for gpu in seen.budgets(Instant(0, 0))[:1]:
            vllm, others = (None if n is None else n // GIB for n in (gpu.vllm, gpu.cotenant))
            found.append((gpu.sight, vllm, others, gpu.lost))
    return found


def test_a_cotenant_comes_and_goes(library: Path, state_file: Path) -> None:
    both = f"gpu0.used {65 * GIB}\ngpu0.procs 2:{60 * GIB},77:{5 * GIB}\n"
    desktop = f"gpu0.used {65 * GIB}\ngpu0.procs 2:{60 * GIB}\ngpu0.graphics 88:{5 * GIB}\n"
    texts: list[str | float] = [CARD + OURS, CARD + both, CARD + desktop, CARD + OURS]
    assert told(library, state_file, texts) == [
        (Sight.SEEN, 60, 0, False),
        (Sight.SEEN, 60, 5, False),
        (Sight.SEEN, 60, 5, False),
        (Sight.SEEN, 60, 0, False),
    ]


def test_what_a_driver_hides_is_not_known(library: Path, state_file: Path) -> None:
    sizes = f"gpu0.used {65 * GIB}\ngpu0.procs 2:-1,77:-1\n"
    only_ours = f"gpu0.used {60 * GIB}\ngpu0.procs 2:-1\n"
    unlisted = f"gpu0.used {65 * GIB}\ngpu0.procs 2:{60 * GIB}\n"
    other_namespace = f"gpu0.used {60 * GIB}\ngpu0.procs 0:{60 * GIB}\n"
    refused = (
        "fail.nvmlDeviceGetComputeRunningProcesses_v3 4\n"
        "fail.nvmlDeviceGetComputeRunningProcesses_v2 4\n"
    )
    texts: list[str | float] = [
        CARD + sizes, CARD + only_ours, CARD + unlisted, CARD + other_namespace, CARD + OURS + refused,
    ]  # fmt: skip
    assert told(library, state_file, texts) == [
        (Sight.HIDDEN, None, None, False),
        (Sight.HIDDEN, None, 0, False),
        (Sight.HIDDEN, 60, None, False),
        (Sight.OTHER_NAMESPACE, None, None, False),
        (Sight.HIDDEN, None, None, False),
    ]


def test_a_lost_gpu_and_a_hung_driver_leave_nothing_known(library: Path, state_file: Path) -> None:
    hung = CARD + OURS + "hang_ms.nvmlDeviceGetCount_v2 1000\n"
    texts: list[str | float] = [
        CARD + OURS, CARD + OURS + "gpu0.fail 15\n", CARD + OURS, hung, 2.0, CARD + OURS,
    ]  # fmt: skip
    assert told(library, state_file, texts, limit_s=0.5) == [
        (Sight.SEEN, 60, 0, False),
        (Sight.HIDDEN, None, None, True),
        (Sight.SEEN, 60, 0, False),
        (Sight.HIDDEN, None, None, False),
        (Sight.SEEN, 60, 0, False),
    ]


def test_an_instance_of_a_card_is_split_as_its_own(library: Path, state_file: Path) -> None:
    text = (
        CARD + OURS + f"gpu0.mig 1\ngpu0.instances 1\ngpu0.mig0.total {20 * GIB}\n"
        f"gpu0.mig0.used {9 * GIB}\ngpu0.mig0.procs 2:{9 * GIB}\n"
    )
    neighbour = text.replace("instances 1", "instances 2") + (
        f"gpu0.mig1.total {20 * GIB}\ngpu0.mig1.used {4 * GIB}\ngpu0.mig1.procs 77:{4 * GIB}\n"
    )
    assert told(library, state_file, [text, neighbour]) == [
        (Sight.SEEN, 9, 0, False),
        (Sight.HIDDEN, 9, None, False),
    ]


@pytest.mark.parametrize(
    ("driver", "expected"),
    [(470, (Sight.SEEN, 60, 0, False)), (450, (Sight.HIDDEN, None, None, False))],
)
def test_an_old_driver_tells_what_it_has(
    tmp_path: Path, state_file: Path, driver: int, expected: Told
) -> None:
    assert told(build(tmp_path / "old", driver=driver), state_file, [CARD + OURS]) == [expected]


@pytest.fixture
def state_file(tmp_path: Path) -> Path:
    return tmp_path / "state"
