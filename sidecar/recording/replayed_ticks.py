"""The ticks of a recording for a replay: those that were taken, where they were noted, else made anew."""

from collections.abc import Iterator

from sidecar.model.samples import Tick
from sidecar.recording.folder import TICKS, Recording
from sidecar.recording.gridded_ticks import read_ticks
from sidecar.recording.noted_ticks import read_noted_ticks


def replay_ticks(recording: Recording, interval_s: float) -> Iterator[Tick]:
    """At the interval at which it was taken, the very ticks that were taken, if they were noted."""
    is_noted = recording.find(TICKS) is not None
    if is_noted and recording.header().interval_s == interval_s:
        return read_noted_ticks(recording)
    return read_ticks(recording, interval_s)
