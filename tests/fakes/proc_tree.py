"""A /proc of plain files, as much of it as the process source reads."""

from pathlib import Path


class ProcTree:
    """Processes that start, change parents and end when a test says so."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "net").mkdir(parents=True)
        self.listen({})

    def start(
        self, pid: int, ppid: int = 1, comm: str = "vllm", *, born: int = 100, pages: int = 10
    ) -> None:
        place = self.root / str(pid)
        (place / "fd").mkdir(parents=True, exist_ok=True)
        self._write(pid, f"{pid} ({comm}) S {ppid} " + "0 " * 17 + f"{born} 0 {pages} 0\n")

    def zombie(self, pid: int, ppid: int = 1, born: int = 100) -> None:
        self._write(pid, f"{pid} (vllm) Z {ppid} " + "0 " * 17 + f"{born} 0 0 0\n")

    def pin(self, pid: int, locked_kib: int, pinned_kib: int) -> None:
        """Write the part of ``status`` that tells of memory (``proc_pid_status(5)``)."""
        (self.root / str(pid) / "status").write_text(
            f"Name:\tvllm\nVmPeak:\t  999999 kB\nVmLck:\t{locked_kib:>8} kB\n"
            f"VmPin:\t{pinned_kib:>8} kB\nVmHWM:\t  999999 kB\nThreads:\t9\n"
        )

    def name_space(self, number: int) -> None:
        """The pid namespace that we are in."""
        (self.root / "self" / "ns").mkdir(parents=True)
        (self.root / "self" / "ns" / "pid").symlink_to(f"pid:[{number}]")

    def end(self, pid: int) -> None:
        place = self.root / str(pid)
        (place / "status").unlink(missing_ok=True)
        for link in (place / "fd").iterdir():
            link.unlink()
        (place / "fd").rmdir()
        (place / "stat").unlink()
        place.rmdir()

    def hold(self, pid: int, inode: int) -> None:
        (self.root / str(pid) / "fd" / "7").symlink_to(f"socket:[{inode}]")

    def listen(self, ports: dict[int, int], table: str = "tcp") -> None:
        """Listening sockets, inode by port."""
        rows = ["  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt"]
        rows += [
            f"   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000"
            f"     0        0 {inode} 1 0000000000000000 100 0 0 10 0"
            for port, inode in ports.items()
        ]
        (self.root / "net" / table).write_text("\n".join(rows) + "\n")

    def _write(self, pid: int, text: str) -> None:
        (self.root / str(pid) / "stat").write_text(text)
