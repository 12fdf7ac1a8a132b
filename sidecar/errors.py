"""The exceptions a user can meet.

``SidecarError``
├── ``ConfigError``     a setting is wrong: one line, exit code 2
└── ``RecordingError``  a recording cannot be replayed: one line, exit code 2

Expected failures of the outside world are no exceptions: they are a ``Fault`` in a ``Sample``.
"""

from collections.abc import Iterable


class SidecarError(Exception):
    """An error that is shown to the user as one line, without a traceback."""


class ConfigError(SidecarError):
    """A setting cannot be honoured."""


class RecordingError(SidecarError):
    """A recording is missing, unreadable or not in the format."""


def hint_at(name: str, known: Iterable[str]) -> str:
    """What a refusal of an unknown name ends with: the nearest known one, if one is near."""
    # Needed for a mistake only, and a daemon would hold it all the time.
    import difflib  # noqa: PLC0415

    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""
