"""``envelope.json`` on disk -> the envelope that a live server is held against."""

from pathlib import Path

from sidecar.errors import ConfigError
from sidecar.model.envelope import Envelope
from sidecar.model.vocabulary import Fault
from sidecar.thread import CallThread

READ_LIMIT_S = 5.0


def read_envelope(path: Path) -> Envelope:
    """The envelope in a file, or in the folder of a benchmark; blocks.

    Raises:
        ConfigError: it cannot be read as one.
    """
    # Few have an envelope: the others should not pay for its reader.
    from sidecar.envelope.artifact import (  # noqa: PLC0415
        FILE_NAME,
        MOST_CHARACTERS,
        decode_envelope,
    )

    try:
        file = path / FILE_NAME if path.is_dir() else path
        with file.open(encoding="utf-8", errors="replace") as opened:
            return decode_envelope(opened.read(MOST_CHARACTERS + 1))
    except OSError as error:
        raise ConfigError(f"envelope: {path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"envelope: {path}: {error}") from None


async def load_envelope(path: Path | None) -> Envelope | None:
    """The same beside a running loop; None where none is asked for. Raises the same."""
    if path is None:
        return None
    thread = CallThread("envelope")
    try:
        found = await thread.call(lambda: read_envelope(path), READ_LIMIT_S)
    finally:
        thread.close()
    if isinstance(found, Fault):
        raise ConfigError(f"envelope: {path}: it does not answer")
    return found
