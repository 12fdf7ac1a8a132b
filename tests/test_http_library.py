"""aiohttp is had without certificates of the system, and nothing else is changed for it."""

import json
import subprocess
import sys
from pathlib import Path

from tests.fakes.certificates import Authority
from tests.fakes.daemon import environment

PROGRAM = """
import json, os, ssl
before = dict(os.environ)
import sidecar.commands.run
from aiohttp import connector
contexts = [one for one in vars(connector).values() if isinstance(one, ssl.SSLContext)]
held = lambda one: one.cert_store_stats()["x509"]
print(json.dumps({
    "kept": dict(os.environ) == before,
    "theirs": [held(one) for one in contexts],
    "ours": held(ssl.create_default_context()),
}))
"""


def test_aiohttp_loads_no_certificate_and_who_asks_later_has_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment({"SSL_CERT_FILE": str(Authority(tmp_path).pair.certificate)}),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(done.stdout)
    assert told["theirs"], "aiohttp makes contexts at its import"
    assert not any(told["theirs"])
    assert told["kept"]
    assert told["ours"] == 1
