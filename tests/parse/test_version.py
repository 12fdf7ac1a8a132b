"""Only a plain version gets through."""

import pytest

from sidecar.parse.version import parse_version


@pytest.mark.parametrize(
    ("body", "version"),
    [
        (b'{"version":"0.32.0"}', "0.32.0"),
        (b'{"version":"0.32.0","rust_frontend_version":"0.32.0"}', "0.32.0"),
        (b'{"version":"0.9.1.dev5+g1234.cu128"}', "0.9.1.dev5+g1234.cu128"),
        (b'{"version":"a b"}', None),
        (b'{"version":"' + b"1" * 65 + b'"}', None),
        (b'{"version":7}', None),
        (b"[]", None),
        (b"<html>", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ],
)
def test_the_version_is_read_or_not_known(body: bytes, version: str | None) -> None:
    assert parse_version(body) == version
