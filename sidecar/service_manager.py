"""Tells systemd how we are: the notifications of ``sd_notify(3)``, datagrams of ``NAME=value`` lines.

Ready after the first tick is shown; a sign of life with every tick, so that a loop that stands still
is ended and started again; a status in words of closed sets whenever it changes.
"""

import socket
from collections.abc import Callable

from sidecar.config import Supervision
from sidecar.model.report import STANDS_STILL, Report
from sidecar.model.samples import Instant

SLACK_S = 5.0
"""What opening the sources, gathering samples and writing the state may take besides."""
MICROSECONDS = 1_000_000


def patience_s(interval_s: float) -> float:
    """Seconds for which a daemon that is well may show no sign of life."""
    return STANDS_STILL * interval_s + SLACK_S


def address_of(told: str | None) -> str | None:
    """The socket's address for the kernel; None if nobody listens, or at no address of ours.

    ``@`` stands for the zero byte of an abstract address. Other forms (``vsock:``) are for the
    service managers of virtual machines.
    """
    if told is None or len(told) < 2 or told[0] not in "/@":  # noqa: PLR2004
        return None
    return f"\0{told[1:]}" if told[0] == "@" else told


def say_status(report: Report, *, reloaded: bool) -> str:
    """What is known, in one line of words from closed sets."""
    shown = report.urgent or (report.last_window.causes if report.last_window else ())
    severity = f" ({shown[0].severity.value})" if shown else ""
    parts = [
        f"verdict {report.verdict.value}{severity}",
        f"server {report.state.value}",
        f"lever {report.advice.lever.value}",
    ]
    if not reloaded:
        parts.append("the last reload failed: earlier settings are in effect")
    return "; ".join(parts)


class ServiceManager:
    """Sends notifications, where somebody listens; never waits, and never fails.

    ``failures`` counts those that could not be sent; the first is complained of. What they told goes
    with the next one, for a READY that is lost would be the end of a start.
    """

    def __init__(
        self, told: Supervision, complain: Callable[[str], None] = lambda _event: None
    ) -> None:
        self.address = address_of(told.socket)
        self.watchdog_s = told.watchdog_s
        self.complain = complain
        self.socket: socket.socket | None = None
        self.unsent: dict[str, str] = {}
        self.failures = 0
        self.ready = False
        self.ticks = 0
        self.report: Report | None = None
        self.reloaded = True
        self.status = ""
        self.interval_s = 0.0

    def tell_start(self, interval_s: float) -> None:
        """The pages are there, the first tick is not: it comes within one interval."""
        self.interval_s = interval_s
        self.tell(
            STATUS="waiting for the first sample",
            EXTEND_TIMEOUT_USEC=microseconds(patience_s(interval_s)),
        )

    def tell_report(self, report: Report) -> None:
        """A report was published: of a tick, or of what came between two."""
        fields = {}
        # The first report is a sign of life, too, though no tick brought it.
        lives = report.clock.ticks != self.ticks or not self.ready
        if not self.ready:
            self.ready = True
            fields = {"READY": "1", **self.longer_watchdog()}
        self.ticks = report.clock.ticks
        if lives and self.watchdog_s is not None:
            fields["WATCHDOG"] = "1"
        self.report = report
        self.tell(**fields, **self.new_status())

    def new_status(self) -> dict[str, str]:
        """The status, if somebody listens and it differs from what was told last."""
        if self.report is None or self.address is None:
            return {}
        status = say_status(self.report, reloaded=self.reloaded)
        if status == self.status:
            return {}
        self.status = status
        return {"STATUS": status}

    def longer_watchdog(self) -> dict[str, str]:
        """A longer time for signs of life, where ticks are too seldom for the one that is set."""
        patience = patience_s(self.interval_s)
        if self.watchdog_s is None or self.watchdog_s >= patience:
            return {}
        return {"WATCHDOG_USEC": microseconds(patience)}

    def tell_reload(self, now: Instant) -> None:
        """The settings are being read again. Before we were ready there is nothing to tell."""
        if self.ready:
            self.tell(RELOADING="1", MONOTONIC_USEC=microseconds(now.monotonic))

    def tell_reloaded(self, *, taken: bool) -> None:
        """The settings were read again; ``taken``: and nothing was wrong with them."""
        self.reloaded = taken
        if self.ready:
            self.tell(READY="1", **self.new_status())

    def tell_stop(self) -> None:
        """We end, because we were told to."""
        self.tell(STOPPING="1")

    def tell(self, **fields: str) -> None:
        """Send this and what is unsent.

        Later words stand last: of READY, RELOADING and STOPPING in one notification the last holds.
        """
        if self.address is None or not fields:
            return
        for name, value in fields.items():
            self.unsent.pop(name, None)
            self.unsent[name] = value
        message = "\n".join(f"{name}={value}" for name, value in self.unsent.items())
        try:
            if self.socket is None:
                self.socket = socket.socket(
                    socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
                )
            # By address each time: the service manager may have made its socket anew.
            self.socket.sendto(message.encode(), self.address)
        except OSError:
            self.failures += 1
            if self.failures == 1:
                self.complain("service_manager_not_told")
        else:
            self.unsent.clear()

    def close(self) -> None:
        """Let the socket go."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def microseconds(seconds: float) -> str:
    """A time as the protocol writes it."""
    return str(round(seconds * MICROSECONDS))
