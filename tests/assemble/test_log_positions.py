"""Where another run of ours goes on in the log: at once behind what meant something, soon behind the rest."""

from sidecar.assemble.log_positions import LAG_S, LogPositions
from sidecar.model.readings import LogEvent, LogReading
from sidecar.model.samples import Instant


def at(seconds: float) -> Instant:
    return Instant(seconds, 1_000_000 + seconds)


def place(offset: int) -> dict[str, dict[str, object]]:
    return {"log": {"offset": offset}}


def quiet(offset: int) -> LogReading:
    return LogReading(lines=1, positions=place(offset))


def telling(offset: int, second: float) -> LogReading:
    event = LogEvent("cuda_oom", at(second).monotonic, at(second).unix)
    return LogReading(events=(event,), lines=1, positions=place(offset))


def test_lines_that_mean_nothing_move_the_kept_place_after_a_while() -> None:
    positions = LogPositions()
    kept = []
    for second in range(12):
        positions.see(quiet(second))
        kept.append(positions.keep(at(second)))
    assert kept == [place(0)] * 5 + [place(5)] * 5 + [place(10)] * 2
    assert LAG_S == 5


def test_a_line_that_means_something_moves_it_at_once() -> None:
    positions = LogPositions()
    positions.see(quiet(0))
    assert positions.keep(at(0)) == place(0)
    positions.see(telling(1, 1))
    # A quiet reading in between does not hide it.
    positions.see(quiet(2))
    assert positions.keep(at(1)) == place(2)
    positions.see(quiet(3))
    assert positions.keep(at(2)) == place(2)


def test_what_was_told_of_a_past_moves_it_at_once() -> None:
    positions = LogPositions()
    positions.see(quiet(0))
    positions.keep(at(0))
    past = telling(0, 0).events
    positions.see(LogReading(past=past, positions=place(1)))
    assert positions.keep(at(1)) == place(1)


def test_another_log_is_kept_at_once() -> None:
    positions = LogPositions()
    positions.see(quiet(0))
    positions.keep(at(0))
    both: dict[str, dict[str, object]] = {**place(0), "second": {"offset": 0}}
    positions.see(LogReading(positions=both))
    assert positions.keep(at(1)) == both


def test_a_run_goes_on_from_what_the_one_before_kept() -> None:
    positions = LogPositions()
    positions.resume(place(7))
    assert positions.keep(at(0)) == place(7)
