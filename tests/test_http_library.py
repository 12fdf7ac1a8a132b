"""aiohttp is had without certificates of the system, and nothing else is changed for it."""

import json
import subprocess
import sys

import pytest

from tests.fakes.daemon import environment

PROGRAM = """
import json, os, ssl, sys
before = dict(os.environ)
import sidecar.commands.run
from aiohttp import connector
unused = [one for one in vars(connector).values() if isinstance(one, ssl.SSLContext)]
print(json.dumps({
    "kept": dict(os.environ) == before,
    "contexts": len(unused),
    "certificates": sum(one.cert_store_stats()["x509"] for one in unused),
    "places": ssl.get_default_verify_paths()[:2],
}))
"""


@pytest.mark.parametrize("given", [{}, {"SSL_CERT_FILE": "/etc/hostname", "SSL_CERT_DIR": "/etc"}])
def test_no_certificate_is_loaded_and_the_environment_is_what_it_was(given: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment(given),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(done.stdout)
    assert told["contexts"] > 0, "aiohttp makes some at its import"
    assert told["certificates"] == 0
    assert told["kept"]
    if given:
        assert told["places"] == list(given.values())
