"""Where server and client say different things of the same run, by more than is honest.

Only figures that both sides know exactly are compared: counts, rates and means. Quantiles are not: the
server's follow from buckets that double their bounds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sidecar.model.envelope import ClientView, Disagreement, ServerView


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both sides, and how far they may lie apart.

    The client may say more than the server by ``share`` of it and ``more``, and less by ``share`` and
    ``less``, in the figure's unit. ``timed``: it is a rate over the run's length, which the server's
    side knows to the interval of its samples.
    """

    figure: str
    server: Callable[[ServerView], float | None]
    client: Callable[[ClientView], float | None]
    share: float
    more: float
    less: float
    timed: bool = False


COMPARED: Final = (
    # Warm-ups and probes of a client are requests to the server, and not in the client's count.
    Compared("completed", lambda view: view.completed, lambda view: view.completed, 0.02, 0.5, 2.5),
    Compared(
        "output_tokens_per_second",
        lambda view: view.output_tokens_per_second,
        lambda view: view.output_tokens_per_second,
        share=0.1,
        more=1.0,
        less=1.0,
        timed=True,
    ),
    # The client's holds the network, its own loop, and detokenising: a first chunk of text may take
    # several tokens. It never sees a first token before the server made it.
    Compared(
        "ttft_mean",
        lambda view: view.ttft.mean,
        lambda view: view.ttft.mean,
        share=0.25,
        more=0.1,
        less=0.005,
    ),
    # Clients time chunks, which hold several tokens where the server or the client is busy.
    Compared(
        "inter_token_mean",
        lambda view: view.inter_token.mean,
        lambda view: view.inter_token.mean,
        share=0.25,
        more=0.002,
        less=0.002,
    ),
    Compared(
        "e2e_mean",
        lambda view: view.e2e.mean,
        lambda view: view.e2e.mean,
        share=0.1,
        more=0.1,
        less=0.02,
    ),
)
"""What is compared, with the tolerance of each and why it is not nothing."""


def find_disagreements(
    server: ServerView, client: ClientView, interval_s: float
) -> tuple[Disagreement, ...]:
    """The figures of which both sides say something, and not the same.

    ``interval_s``: between samples; begin and end of the run are known to half of it each.
    """
    found = []
    for one in COMPARED:
        ours, theirs = one.server(server), one.client(client)
        if ours is None or theirs is None:
            continue
        share = one.share
        if one.timed:
            share += interval_s / server.seconds if server.seconds > 0 else 1.0
        above = theirs - ours > share * ours + one.more
        below = ours - theirs > share * ours + one.less
        if above or below:
            found.append(Disagreement(one.figure, ours, theirs))
    return tuple(found)
