"""vLLM's output, piped into us."""

import os
import select
from typing import Final

from sidecar.model.vocabulary import Fault
from sidecar.sources.log_places.channel import Block, Channel
from sidecar.sources.log_places.lines import LineCutter

_CHUNK_BYTES: Final = 64 * 1024
_LOOK_MS: Final = 250
"""Milliseconds after which a silent writer is waited for anew, or no more."""


class StdinFeed:
    """Reads a descriptor to its end, which is no fault: the log is silent from then on.

    Never makes the writer wait for us, since that would be vLLM: what finds no room is dropped and
    counted. The descriptor is left in the mode that it was in, since others may hold it too.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor

    def run(self, channel: Channel) -> Fault | None:
        """Hand over all lines that come."""
        cutter = LineCutter()
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        channel.opened()
        try:
            while not channel.closed:
                if not poll.poll(_LOOK_MS):
                    continue
                data = os.read(self._descriptor, _CHUNK_BYTES)
                lines = cutter.feed(data) if data else cutter.finish()
                overlong = cutter.take_overlong()
                if lines or overlong:
                    channel.offer(Block(lines, overlong=overlong))
                if not data:
                    return None
        except BlockingIOError:
            # Somebody else took what was there.
            return None
        except OSError:
            return Fault.IO_ERROR
        return None

    def interrupt(self) -> None:
        """Nothing to do: the waiting is short."""
