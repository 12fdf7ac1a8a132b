"""Certificates made by openssl, with an authority of our own."""

import ssl
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DAYS = ("-days", "2")
EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
RSA = ("-newkey", "rsa:2048")


def openssl(folder: Path, *arguments: str) -> str:
    """Run openssl in a folder; what it prints."""
    done = subprocess.run(
        ["openssl", *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as files of PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; ``pair`` is its own."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
        openssl(
            folder,
            *("req", "-x509", *EC, "-nodes", *DAYS, "-subj", f"/CN={name}"),
            *("-keyout", f"{name}.key", "-out", f"{name}.crt"),
        )

    def issue(
        self, name: str, san: str = "IP:127.0.0.1", *, kind: Iterable[str] = EC, ca: bool = False
    ) -> Pair:
        """A pair ``NAME.crt`` and ``NAME.key``; ``san`` as openssl writes it, empty for none."""
        lines = [f"subjectAltName={san}\n"] if san else []
        lines.append(f"basicConstraints=critical,CA:{str(ca).upper()}\n")
        (self.folder / f"{name}.ext").write_text("".join(lines))
        openssl(
            self.folder,
            *("req", *kind, "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
        )
        openssl(
            self.folder,
            *("x509", "-req", "-in", f"{name}.csr", "-extfile", f"{name}.ext", *DAYS),
            *("-CA", self.pair.certificate.name, "-CAkey", self.pair.key.name, "-CAcreateserial"),
            *("-out", f"{name}.crt"),
        )
        return Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    def client(self, pair: Pair | None = None) -> ssl.SSLContext:
        """The client's side: it trusts this authority alone, and shows ``pair``."""
        context = ssl.create_default_context(cafile=self.pair.certificate)
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context
