"""Certificates and keys that are none are refused in one line that quotes nothing of them."""

import os
from pathlib import Path

import pytest

from sidecar.errors import ConfigError
from sidecar.export.tls import TlsError, TlsRules, make_context
from sidecar.export.web_file import load
from tests.export.serving import put, tls_section
from tests.fakes.certificates import RSA, Authority, Pair, openssl

pytestmark = pytest.mark.component("openssl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, two pairs of it, and files that are no pair, each in its own way."""
    folder = tmp_path_factory.mktemp("keys")
    authority = Authority(folder)
    authority.issue("ec")
    authority.issue("rsa", kind=RSA)
    write_bad(folder)
    return folder


@pytest.mark.parametrize("rules", [TlsRules(ciphers=("NONE",)), TlsRules(curve="none")])
def test_what_this_openssl_does_not_have_is_said(folder: Path, rules: TlsRules) -> None:
    certificate, key = [(folder / name).read_bytes() for name in ("ec.crt", "ec.key")]
    with pytest.raises(TlsError, match=r"^cipher_suites or curve_preferences are not had"):
        make_context(rules, certificate=certificate, key=key)


def write_bad(folder: Path) -> None:
    """Files that are no pair, each in its own way."""
    (folder / "empty").write_bytes(b"")
    (folder / "junk").write_bytes(b"SECRET")
    (folder / "half").write_bytes((folder / "ec.crt").read_bytes()[:200])
    (folder / "large").write_bytes(b"S" * 300_000)
    openssl(folder, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "other.key")
    protect = ("-aes256", "-passout", "pass:SECRET")
    openssl(folder, "pkey", "-in", "ec.key", *protect, "-out", "locked.key")
    openssl(folder, "ec", "-in", "ec.key", *protect, "-out", "locked_old.key")
    openssl(
        folder,
        *("req", "-x509", "-newkey", "rsa:1024", "-nodes", "-subj", "/CN=x"),
        *("-keyout", "short.key", "-out", "short.crt"),
    )


@pytest.mark.parametrize(
    ("certificate", "key", "reason"),
    [
        ("ec.crt", "other.key", "the key does not fit the certificate"),
        ("ec.crt", "rsa.key", "the key does not fit the certificate"),
        ("ec.key", "ec.crt", "certificate or key are no PEM, or no such pair"),
        ("ec.crt", "junk", "certificate or key are no PEM, or no such pair"),
        ("half", "ec.key", "certificate or key are no PEM, or no such pair"),
        ("empty", "empty", "certificate or key are no PEM, or no such pair"),
        ("short.crt", "short.key", "the key is too short to be safe"),
        ("ec.crt", "locked.key", "the key is encrypted, and there is nobody to ask for its password"),
        ("ec.crt", "locked_old.key", "the key is encrypted, and there is nobody to ask for its password"),
    ],
)  # fmt: skip
def test_no_pair_is_one_line(folder: Path, certificate: str, key: str, reason: str) -> None:
    path = put(folder / "web.yml", tls_section(Pair(folder / certificate, folder / key)))
    with pytest.raises(ConfigError) as refused:
        load(path)
    assert str(refused.value) == f"web-config-file: line 2: cert_file: {reason}"


@pytest.mark.parametrize(
    ("key", "name", "reason"),
    [
        ("cert_file", "missing", "no such file or directory"),
        ("key_file", ".", "not a regular file"),
        ("key_file", "/dev/zero", "not a regular file"),
        ("key_file", "large", "larger than 262144 bytes"),
        ("key_file", "ec.key/SECRET", "not a directory"),
        ("key_file", "SECRET" * 100, "file name too long"),
        ("key_file", '"SEC\\0RET"', "no such file or directory"),
        ("client_ca_file", "missing", "no such file or directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(
    folder: Path, key: str, name: str, reason: str
) -> None:
    given = {"cert_file": "ec.crt", "key_file": "ec.key", "client_ca_file": "ca.crt", key: name}
    lines = "".join(f"  {name}: {value}\n" for name, value in given.items())
    path = put(
        folder / "web.yml",
        f"tls_server_config:\n  client_auth_type: RequireAndVerifyClientCert\n{lines}",
    )
    with pytest.raises(ConfigError) as refused:
        load(path)
    line = 3 + list(given).index(key)
    assert str(refused.value) == f"web-config-file: line {line}: {key}: {reason}"


def test_a_pipe_without_a_writer_does_not_hold_us(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r"^web-config-file: not a regular file$"):
        load(tmp_path / "pipe")


@pytest.mark.parametrize("content", [b"", b"SECRET", b"\xff\xfe", "ec.key"])
def test_an_authority_that_is_none_is_one_line(folder: Path, content: bytes | str) -> None:
    authority = folder / "authority"
    authority.write_bytes(
        content if isinstance(content, bytes) else (folder / content).read_bytes()
    )
    rule = "client_auth_type: VerifyClientCertIfGiven\nclient_ca_file: authority\n"
    path = put(folder / "web.yml", tls_section(Pair(folder / "ec.crt", folder / "ec.key"), rule))
    with pytest.raises(ConfigError) as refused:
        load(path)
    assert str(refused.value) == (
        "web-config-file: line 5: client_ca_file: no PEM certificate of an authority"
    )
