"""The door to the Kubernetes API, with the service account that the pod was given. It blocks: for threads."""

import http.client
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from sidecar.model.vocabulary import Fault

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts ``token``, ``ca.crt`` and ``namespace``."""
ANSWER_LIMIT_S: Final = 10.0
"""Seconds for the connection and the head of an answer."""
_MOST_TOKEN: Final = 64 * 1024
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
"""Seconds of silence, seconds between probes, probes: a peer that is gone shows after 30 s."""
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API is and who we are. ``host`` None: we do not run in a cluster."""

    host: str | None
    port: int = 443
    account: Path = SERVICE_ACCOUNT


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is not what was asked for, by its HTTP status."""

    status: int


class KubeApi:
    """One request at a time, from one thread; another one may break it off."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._socket: socket.socket | None = None
        self._stopped = False

    @property
    def is_in_cluster(self) -> bool:
        """Whether there is an API at all."""
        return self._access.host is not None

    def namespace(self) -> str | Fault:
        """Our own namespace."""
        return self._read("namespace")

    def get(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        endless: bool = False,
        silent_s: float | None = None,
    ) -> "http.client.HTTPResponse | Refusal | Fault":
        """Ask for ``path``.

        The body may be silent for ``silent_s`` seconds at a time, by default for as many as the head;
        that of an ``endless`` answer as long as it likes.

        Raises:
            OSError, http.client.HTTPException: see ``fault_of``.
        """
        token = self._read("token")
        if self._access.host is None:
            return Fault.ABSENT
        if isinstance(token, Fault):
            return token
        connection = self._connection(self._access.host)
        headers = {"Authorization": f"Bearer {token}", "Accept": "*/*", "Connection": "close"}
        address = f"{path}?{urlencode(query)}" if query else path
        try:
            self._connect(connection)
            connection.request("GET", address, headers=headers)
            answer = connection.getresponse()
        except BaseException:
            connection.close()
            raise
        if answer.status != _OK:
            answer.close()
            connection.close()
            return Refusal(answer.status)
        if self._socket is not None and (endless or silent_s is not None):
            self._socket.settimeout(None if endless else silent_s)
        return answer

    def interrupt(self) -> None:
        """Break the connection, and every later one."""
        self._stopped = True
        held = self._socket
        if held is not None:
            with suppress(OSError):
                # Not the TLS socket's own method, which would change it under its reader.
                socket.socket.shutdown(held, socket.SHUT_RDWR)

    def _connection(self, host: str) -> http.client.HTTPSConnection:
        authority = self._access.account / "ca.crt"
        return http.client.HTTPSConnection(
            host,
            self._access.port,
            timeout=ANSWER_LIMIT_S,
            context=ssl.create_default_context(cafile=authority),
        )

    def _connect(self, connection: http.client.HTTPSConnection) -> None:
        connection.connect()
        self._socket = connection.sock
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
        if self._stopped:
            self.interrupt()

    def _read(self, name: str) -> str | Fault:
        """A file of the service account, as it is now: the kubelet renews them."""
        try:
            with (self._access.account / name).open("rb") as file:
                text = file.read(_MOST_TOKEN).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return Fault.ABSENT
        except OSError:
            return Fault.DENIED
        return text if text.isascii() and text.isprintable() and text else Fault.DENIED


def fault_of(error: OSError | http.client.HTTPException) -> Fault:
    """What a failed connection or a broken answer is to us."""
    match error:
        case ssl.SSLCertVerificationError() | PermissionError():
            return Fault.DENIED
        case ConnectionRefusedError():
            return Fault.REFUSED
        case TimeoutError():
            return Fault.TIMEOUT
        case FileNotFoundError() | socket.gaierror():
            return Fault.ABSENT
        case _:
            return Fault.DISCONNECTED
