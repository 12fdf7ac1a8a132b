"""Whether a record that carries users' text stops amid it: one pass over its text, row by row."""

import re
from dataclasses import dataclass

_FINISHED = (".", "None", ")", "]", "}", '"', "...")
_TOLD = re.compile(
    r"(?:: prompt|: params| details| output| JSON body| with config| model execution| stats): "
)
_LONGEST_TOLD = 32
_ENDED = re.compile(r", (?:lora_request|prompt_adapter_request|priority): (?:None|-?\d{1,9})\.$")
"""How vLLM ends a request's line, behind all that its client wrote."""

_LITERAL_ENDS = {
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*'", re.DOTALL),
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*"', re.DOTALL),
}
_next_quote = re.compile(r"['\"]").search


def ends_whole(text: str) -> bool:
    """Whether a text ends as whole records do."""
    return text.endswith(_FINISHED)


@dataclass(slots=True)
class OpenText:
    """The state behind the text that was fed so far; each character is looked at once.

    ``quote``: the mark of a literal that is open. ``depth``: brackets that are open outside of
    literals. ``tail``: the last characters outside of literals.
    """

    told: bool = False
    quote: str | None = None
    depth: int = 0
    tail: str = ""
    ended: bool = False
    _escape: str = ""

    def feed(self, text: str) -> None:
        """Go on with the next row of the record."""
        self.ended = _ENDED.search(text[-64:].rstrip()) is not None
        if not self.told:
            text = self.tail + text
            found = _TOLD.search(text)
            if found is None:
                self.tail = text[-_LONGEST_TOLD:]
                return
            self.told, self.tail, text = True, "", text[found.end() :]
        self._scan(self._escape + text)

    @property
    def is_open(self) -> bool:
        """Whether a literal or a bracket is open, or the text just stops."""
        if self.ended:
            return False
        if not self.told:
            return not ends_whole(self.tail.rstrip())
        if self.quote is not None or self.depth > 0:
            return True
        return not ends_whole(self.tail.rstrip(", ")) and "finish_reason: " not in self.tail

    def _scan(self, text: str) -> None:
        at, end = 0, len(text)
        self._escape = ""
        while at < end:
            if self.quote is not None:
                found = _LITERAL_ENDS[self.quote].match(text, at)
                if found is None:
                    self._escape = "\\" * (_trailing_backslashes(text, at) % 2)
                    return
                self.quote, at = None, found.end()
                continue
            opening = _next_quote(text, at)
            self._outside(text[at : opening.start() if opening else end])
            if opening is None:
                return
            self.quote, at = opening[0], opening.end()

    def _outside(self, text: str) -> None:
        self.depth += sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))
        self.tail = (self.tail + text)[-_LONGEST_TOLD:]


def _trailing_backslashes(text: str, begin: int) -> int:
    return len(text) - max(begin, len(text.rstrip("\\")))
