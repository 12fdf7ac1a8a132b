"""The one door to aiohttp, which is had here without what it loads for nobody.

At its import it makes a TLS context with every certificate of the system. Of ours each has its own
context, so that one would be 2 MB (a thirtieth of the daemon) and a twentieth of its start for nothing.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_PLACES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Where OpenSSL is told to find certificates (``X509_get_default_cert_file_env(3)``)."""


@contextmanager
def _no_certificates() -> Iterator[None]:
    """Let OpenSSL find none meanwhile. For an import, while there is no other thread."""
    before = {name: os.environ.get(name) for name in _PLACES}
    os.environ.update(dict.fromkeys(_PLACES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with _no_certificates():
    import aiohttp
    from aiohttp import web
    from aiohttp.abc import AbstractResolver, AbstractStreamWriter, ResolveResult
    from aiohttp.payload import Payload

__all__ = [
    "AbstractResolver",
    "AbstractStreamWriter",
    "Payload",
    "ResolveResult",
    "aiohttp",
    "web",
]
