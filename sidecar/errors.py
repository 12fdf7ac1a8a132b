"""The exceptions a user can meet.

``SidecarError``
├── ``ConfigError``     a setting is wrong: one line, exit code 2
└── ``RecordingError``  a recording cannot be replayed: one line, exit code 2

Expected failures of the outside world are no exceptions: they are a ``Fault`` in a ``Sample``.
"""


class SidecarError(Exception):
    """An error that is shown to the user as one line, without a traceback."""


class ConfigError(SidecarError):
    """A setting cannot be honoured."""


class RecordingError(SidecarError):
    """A recording is missing, unreadable or not in the format."""
