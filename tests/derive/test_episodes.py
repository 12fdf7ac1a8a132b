"""Alerts rise at once, fall after a quiet time, and do not flap."""

from sidecar.derive.episodes import FAILURE_QUIET_S, PRESSURE_QUIET_WINDOWS, Episodes
from sidecar.model.samples import Instant
from sidecar.model.verdict import CauseFound
from sidecar.model.vocabulary import Cause, Confidence, Kind, Phase, ServerState, Severity

WINDOW_S = 10.0


def found(cause: Cause, severity: Severity) -> CauseFound:
    return CauseFound(
        cause, Kind.UNSPECIFIED, Phase.RUNTIME, Confidence.CONFIRMED, severity, evidence=()
    )


def play(
    causes: dict[int, CauseFound], length: int, state: ServerState = ServerState.SERVING
) -> list[dict[Cause, Severity]]:
    episodes = Episodes(window_s=WINDOW_S)
    shown = []
    for n in range(length):
        seen = [causes[n]] if n in causes else []
        episodes.advance(seen, Instant(n * WINDOW_S, n * WINDOW_S), state)
        shown.append(episodes.alerts(()))
    return shown


def test_an_alert_rises_with_its_first_window_and_falls_after_the_quiet_time() -> None:
    shown = play({2: found(Cause.PREEMPTION, Severity.WARNING)}, 12)
    up = [n for n, alerts in enumerate(shown) if alerts]
    assert up == list(range(2, 2 + PRESSURE_QUIET_WINDOWS))


def test_single_windows_without_a_preemption_do_not_let_it_flap() -> None:
    causes = {n: found(Cause.PREEMPTION, Severity.WARNING) for n in (1, 3, 6, 8)}
    shown = play(causes, 9)
    assert [bool(alerts) for alerts in shown] == [False] + [True] * 8


def test_the_loudest_severity_of_the_quiet_time_is_shown() -> None:
    causes = {
        1: found(Cause.PREEMPTION, Severity.CRITICAL),
        2: found(Cause.PREEMPTION, Severity.INFO),
        3: found(Cause.PREEMPTION, Severity.INFO),
        6: found(Cause.PREEMPTION, Severity.INFO),
    }
    shown = [alerts[Cause.PREEMPTION] for alerts in play(causes, 7)[1:]]
    assert shown == [Severity.CRITICAL] * 4 + [Severity.INFO] * 2


def test_a_failure_stays_while_the_server_lies_dead() -> None:
    causes = {1: found(Cause.HOST_OOM, Severity.CRITICAL)}
    length = int(FAILURE_QUIET_S / WINDOW_S) + 20
    assert play(causes, length, ServerState.DEAD)[-1] == {Cause.HOST_OOM: Severity.CRITICAL}
    assert play(causes, length)[-1] == {}


def test_what_is_just_being_seen_is_shown_at_once() -> None:
    episodes = Episodes(window_s=WINDOW_S)
    urgent = [found(Cause.CUDA_OOM, Severity.CRITICAL)]
    assert episodes.alerts(urgent) == {Cause.CUDA_OOM: Severity.CRITICAL}
    assert episodes.alerts(()) == {}
