"""What lists of processes tell of the server's life."""

from collections.abc import Callable

import pytest

from sidecar.assemble.life import Life
from sidecar.catalog import signals
from sidecar.catalog.signatures import Mark
from sidecar.model.evidence import Evidence, Weight
from sidecar.model.readings import Process, ProcessReading
from sidecar.model.samples import Instant
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase, ServerState, Source

MAIN = Process(10, "vllm", born=10)
ENGINE = Process(11, "VLLM::EngineCor", born=20)
WORKER = Process(12, "VLLM::Worker", born=30)
NEW_MAIN = Process(50, "vllm", born=90)
NEW_ENGINE = Process(51, "VLLM::EngineCor", born=95)
ALL = (MAIN, ENGINE, WORKER)


def at(second: float) -> Instant:
    return Instant(100.0 + second, 1_700_000_000.0 + second)


class Story:
    """A life, told second by second."""

    def __init__(self, *, log: bool = True) -> None:
        self.life = Life(log_is_read=log)
        self.found: list[Evidence] = []

    def lists(self, second: float, *processes: Process, root: int | None = 10) -> None:
        living = root if any(one.pid == root for one in processes) else None
        reading = ProcessReading(processes, root=living)
        self.found += self.life.see_processes(reading, at(second))

    def answers(self, second: float) -> None:
        self.life.see_answer(at(second))

    def refuses(self, second: float) -> None:
        self.found += self.life.see_refusal(at(second))

    def signals(self) -> list[str]:
        return [one.signal for one in self.found]


def serving(*, log: bool = True) -> Story:
    story = Story(log=log)
    for second in (0, 1):
        story.answers(second)
        story.lists(second + 0.1, *ALL)
    return story


@pytest.mark.parametrize("left", [(MAIN, WORKER), (MAIN, ENGINE), (MAIN,)])
def test_an_engine_that_is_gone_while_the_server_answers_on_is_a_failure(
    left: tuple[Process, ...],
) -> None:
    story = serving(log=False)
    story.lists(2, *left)
    story.answers(3)
    story.lists(3.1, *left)
    assert story.found == []
    story.answers(4)
    story.lists(4.1, *left)
    (found,) = story.found
    assert (found.cause, found.kind, found.source) == (
        Cause.ENGINE_FAILURE,
        Kind.KILLED,
        Source.PROCESS,
    )
    assert (found.weight, found.confidence) == (Weight.CONSEQUENCE, Confidence.CONFIRMED)
    assert (found.signal, found.at, found.phase) == (
        signals.ENGINE_PROCESS_LOST,
        at(2),
        Phase.RUNTIME,
    )
    for second in range(5, 200, 5):
        story.answers(second)
        story.lists(second + 0.1, *left)
    assert len(story.found) == 1


def test_a_server_that_is_stopped_does_not_answer_without_its_engines() -> None:
    story = serving(log=False)
    story.lists(2, MAIN)
    story.refuses(2.1)
    story.refuses(4)
    story.lists(4.1, MAIN)
    story.lists(5)
    story.refuses(6)
    assert story.found == []


def test_a_wanted_stop_explains_a_lost_engine() -> None:
    story = serving()
    story.life.see_mark(Mark.STOP_WANTED, at(1.5))
    story.lists(2, MAIN)
    story.answers(4)
    story.lists(4.1, MAIN)
    story.answers(70)
    story.lists(70.1, MAIN)
    assert story.found == []


def test_a_failure_that_was_told_explains_a_lost_engine() -> None:
    story = serving()
    story.life.see_failure(at(1.9))
    story.lists(2, MAIN)
    story.answers(4)
    story.lists(4.1, MAIN)
    story.answers(130)
    story.lists(130.1, MAIN)
    assert story.found == []


def test_an_engine_that_the_server_has_started_again_is_not_lost() -> None:
    story = serving()
    story.lists(2, MAIN, WORKER)
    story.answers(3)
    story.lists(3.1, MAIN, WORKER, Process(13, "VLLM::EngineCor", born=70))
    story.answers(5)
    story.lists(5.1, MAIN, WORKER, Process(13, "VLLM::EngineCor", born=70))
    assert story.found == []


def test_a_pid_that_is_used_again_does_not_hide_a_loss() -> None:
    story = serving()
    for second in (2, 4):
        story.answers(second)
        story.lists(second + 0.1, MAIN, ENGINE, Process(12, "python3", born=77))
    assert story.signals() == [signals.ENGINE_PROCESS_LOST]


def test_a_program_that_an_engine_starts_bears_its_name_for_a_moment() -> None:
    story = serving()
    story.lists(2, *ALL, Process(13, "VLLM::Worker", born=40))
    story.answers(3)
    story.lists(3.1, *ALL)
    story.answers(5)
    story.lists(5.1, *ALL)
    assert story.found == []


def replaced(story: Story, second: float, *beside: Process) -> None:
    story.lists(second, NEW_MAIN, NEW_ENGINE, *beside, root=50)


def test_another_server_in_its_place_is_a_restart_that_nothing_explains() -> None:
    story = serving()
    story.answers(3)
    replaced(story, 3.1)
    (found,) = story.found
    assert (found.signal, found.weight, found.confidence) == (
        signals.SERVER_RESTARTED,
        Weight.CONSEQUENCE,
        Confidence.SUSPECTED,
    )
    assert (found.cause, found.kind) == (Cause.ENGINE_FAILURE, Kind.KILLED)
    story.answers(4)
    replaced(story, 4.1)
    assert len(story.found) == 1


def test_a_pid_that_is_the_same_but_began_later_is_another_server() -> None:
    story = serving()
    story.lists(3, Process(10, "vllm", born=91))
    assert story.signals() == [signals.SERVER_RESTARTED]


def test_where_no_log_is_read_a_restart_may_have_been_wanted() -> None:
    story = serving(log=False)
    replaced(story, 3)
    assert story.found == []
    assert story.life.watch.replaced


def stopped(story: Story) -> None:
    story.life.see_mark(Mark.STOP_WANTED, at(1.5))
    story.refuses(2)
    assert story.life.state is ServerState.STOPPED


def died(story: Story) -> None:
    story.life.see_failure(at(1.5))
    story.refuses(2)
    assert story.life.state is ServerState.DEAD


@pytest.mark.parametrize("end", [stopped, died])
@pytest.mark.parametrize("gap", [1, 100, 1000])
def test_a_restart_that_something_explains_is_none_of_its_own(
    end: Callable[[Story], None], gap: float
) -> None:
    story = serving()
    end(story)
    story.lists(2.1)
    story.life.see_mark(Mark.STARTING, at(3 + gap))
    story.lists(3.1 + gap)
    story.answers(4 + gap)
    replaced(story, 4.1 + gap)
    assert story.found == []
    assert story.life.state is ServerState.SERVING


def test_a_stop_that_shows_only_in_the_log_explains_a_restart() -> None:
    story = serving()
    story.life.see_mark(Mark.STOP_WANTED, at(5))
    story.answers(60)
    replaced(story, 60.1)
    story.answers(61)
    replaced(story, 61.1)
    assert story.found == []


def test_a_child_that_outlives_the_first_process_is_no_new_server() -> None:
    child = Process(14, "VLLM::APIServer", born=15)
    story = Story()
    for second in (0, 1):
        story.answers(second)
        story.lists(second + 0.1, *ALL, child)
    story.lists(2, ENGINE, WORKER, child, root=14)
    assert story.found == []
    assert not story.life.watch.replaced


@pytest.mark.parametrize("log", [True, False])
def test_engines_that_are_left_without_a_server_are_told_once(*, log: bool) -> None:
    story = serving(log=log)
    story.lists(2, ENGINE, WORKER)
    story.refuses(2.1)
    for second in range(3, 400, 3):
        story.lists(second, ENGINE, WORKER)
        story.refuses(second + 0.1)
    assert story.signals() == [signals.ORPHANS_LEFT]
    assert story.life.state is ServerState.DEAD


def test_engines_that_outlive_a_wanted_stop_are_told_when_it_explains_them_no_more() -> None:
    # The server's exit code is 0 then; nobody but its orphans tells that memory is still held.
    story = serving()
    stopped(story)
    for second in range(3, 400, 3):
        story.lists(second, ENGINE)
        story.refuses(second + 0.1)
    (found,) = story.found
    assert found.signal == signals.ORPHANS_LEFT
    assert found.at.monotonic > at(60).monotonic


def test_a_server_beside_the_orphans_of_the_one_before_tells_how_that_ended() -> None:
    story = serving(log=False)
    replaced(story, 3, ENGINE, WORKER)
    (found,) = story.found
    assert (found.signal, found.confidence) == (signals.ORPHANS_LEFT, Confidence.CONFIRMED)
    assert story.life.watch.orphans == 2
    replaced(story, 4, ENGINE, WORKER)
    assert len(story.found) == 1


def test_orphans_that_were_there_before_us_are_only_counted() -> None:
    story = Story()
    for second in range(5):
        story.answers(second)
        replaced(story, second + 0.1, ENGINE)
    assert story.found == []
    assert story.life.watch.orphans == 1


def test_a_start_that_leaves_its_engines_behind_has_failed() -> None:
    story = Story(log=False)
    story.lists(0, MAIN, ENGINE)
    story.refuses(0.1)
    assert story.life.state is ServerState.STARTING
    story.lists(1, ENGINE)
    assert story.found == []
    story.lists(3, ENGINE)
    (found,) = story.found
    assert (found.signal, found.kind) == (signals.ORPHANS_LEFT, Kind.START_FAILED)


def test_a_server_that_bears_no_name_of_vllms_leaves_no_orphans_while_it_lives() -> None:
    story = Story()
    unnamed = Process(10, "python3", born=10)
    for second in (0, 1):
        story.answers(second)
        story.lists(second + 0.1, unnamed, ENGINE)
    story.refuses(2)
    story.lists(2.1, unnamed, ENGINE)
    assert story.found == []


def test_what_is_told_late_of_the_run_before_does_not_end_a_start() -> None:
    story = serving()
    died(story)
    story.life.see_mark(Mark.STARTING, at(10))
    states = []
    for second in (2, 11):
        story.life.see_failure(at(second))
        states.append(story.life.state)
    assert states == [ServerState.STARTING, ServerState.DEAD]
