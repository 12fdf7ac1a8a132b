"""Cgroups below one parent, as a v2 kernel counts the kills in them."""

from dataclasses import dataclass, field

from sidecar.model.readings import CgroupReading, Witness

DEEDS = ("kill", "kill_sibling", "remove", "create")
BOOT = "b1"
POD = "/kubepods/pod0c9d1c3e-8a3e-4b5c-9d3f-0123456789ab"


@dataclass
class CgroupMachine:
    """``ours`` is the cgroup that the server is in, None between its removal and its re-creation.

    ``has_witness``: whether the parent can be read.
    """

    has_witness: bool
    live: dict[int, int] = field(default_factory=lambda: {1: 0, 2: 0})
    ours: int | None = 1
    above: int = 0
    kills: int = 0
    victims: list[int] = field(default_factory=list)
    newest: int = 2

    def do(self, deed: str) -> None:
        """Let one of ``DEEDS`` happen."""
        match deed:
            case "kill" if self.ours is not None:
                self.live[self.ours] += 1
                self.above += 1
                self.kills += 1
                self.victims.append(self.ours)
            case "kill_sibling":
                self.live[2] += 1
                self.above += 1
            case "remove" if self.ours is not None:
                del self.live[self.ours]
                self.ours = None
            case "create":
                self.do("remove")
                self.newest += 1
                self.ours = self.newest
                self.live[self.newest] = 0
            case _:
                return

    def look(self) -> CgroupReading:
        """What a look at the server's cgroup gives now."""
        children = {f"c{inode}#{inode}": count for inode, count in self.live.items()}
        witness = Witness(POD, 100, self.above, children) if self.has_witness else None
        return CgroupReading(
            version=2,
            path=f"{POD}/c{self.ours or self.newest}",
            gone=self.ours is None,
            identity=self.ours,
            boot=BOOT,
            events={} if self.ours is None else {"oom_kill": self.live[self.ours]},
            witness=witness,
        )
