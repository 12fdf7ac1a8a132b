"""Bytes as they come -> complete lines."""

from typing import Final

LONGEST_LINE: Final = 256 * 1024
"""Bytes of a line that is still kept together; longer ones are dropped and counted."""
_STRETCH: Final = LONGEST_LINE // 2


class LineCutter:
    """Gives lines whole; the last one waits for its end."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._size = 0
        self._skipping = False
        self._overlong = 0
        self.waiting_bytes = 0

    def skip(self) -> None:
        """What comes next begins amid a line, whose rest would be taken for one: leave it out."""
        self._skipping = True

    def feed(self, data: bytes) -> bytes:
        """The lines that ``data`` completes, each with its end."""
        end = data.rfind(b"\n") + 1
        self.waiting_bytes = len(data) - end + (0 if end else self.waiting_bytes)
        if b"\0" in data:
            # A writer that does not append leaves a hole when its file is truncated.
            data = data.replace(b"\0", b"")
        if self._skipping:
            begin = data.find(b"\n") + 1
            if not begin:
                self.waiting_bytes = 0
                return b""
            self._skipping, data = False, data[begin:]
        end = data.rfind(b"\n") + 1
        whole = b"".join((*self._taken(), data[:end])) if end else b""
        self._keep(data[end:])
        return whole if len(whole) <= LONGEST_LINE else self._without_overlong(whole)

    def finish(self) -> bytes:
        """The last line although its end never came, with one; empty if there is none."""
        begun = b"".join(self._taken())
        self._skipping, self.waiting_bytes = False, 0
        return begun + b"\n" if begun else b""

    def take_overlong(self) -> int:
        """How many lines were dropped since the last call."""
        overlong, self._overlong = self._overlong, 0
        return overlong

    def _taken(self) -> list[bytes]:
        begun, self._begun, self._size = self._begun, [], 0
        return begun

    def _keep(self, data: bytes) -> None:
        if data:
            self._begun.append(data)
            self._size += len(data)
        if self._size > LONGEST_LINE:
            self._taken()
            self._skipping, self.waiting_bytes = True, 0
            self._overlong += 1

    def _without_overlong(self, whole: bytes) -> bytes:
        # An overlong line covers one of these stretches, end to end.
        for at in range(0, len(whole), _STRETCH):
            if whole.find(b"\n", at, at + _STRETCH) < 0:
                break
        else:
            return whole
        lines = [line + b"\n" for line in whole.split(b"\n")[:-1]]
        kept = [line for line in lines if len(line) <= LONGEST_LINE]
        self._overlong += len(lines) - len(kept)
        return b"".join(kept)
