"""Settings -> which of this host's sources are looked at: none of a server that is elsewhere."""

import socket

import pytest

from sidecar.clock import Clock
from sidecar.config import Settings
from sidecar.model.vocabulary import Source
from sidecar.wiring import build_sources, is_own_address, local_port

OF_THE_HOST = frozenset({Source.PROCESS, Source.CGROUP, Source.KERNEL_LOG})
ELSEWHERE = "http://203.0.113.7:8000"
"""An address that nobody bears (RFC 5737)."""


def built(**settings: object) -> frozenset[Source]:
    sources = build_sources(Settings(**settings), Clock())  # type: ignore[arg-type]
    return frozenset(source.name for source in sources) & OF_THE_HOST


def own_address() -> str:
    """An address of this host beside the loopback; the loopback where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.7", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


@pytest.mark.parametrize("target", [ELSEWHERE, "http://vllm.example:8000", "http://vllm:8000"])
def test_of_a_server_elsewhere_this_host_says_nothing(target: str) -> None:
    assert built(target=target) == frozenset()


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"pid": 7}, OF_THE_HOST),
        ({"cgroup": "/docker/x"}, OF_THE_HOST),
        ({"cgroup": "off"}, frozenset()),
        ({"kernel_log": "/var/log/kern.log"}, {Source.KERNEL_LOG}),
        ({"cgroup": "/docker/x", "kernel_log": "off"}, OF_THE_HOST - {Source.KERNEL_LOG}),
    ],
)
def test_what_is_named_is_looked_at_wherever_the_target_is(
    settings: dict[str, object], names: frozenset[Source]
) -> None:
    assert built(target=ELSEWHERE, **settings) == names


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", own_address()])
def test_a_server_on_one_of_our_own_addresses_is_here(host: str) -> None:
    assert built(target=f"http://{host}:8000") == OF_THE_HOST
    assert local_port(f"http://{host}:8000") == 8000


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost.", "127.0.0.1", "127.8.9.1", "127.1", "::1", "::", "0.0.0.0",
     "::ffff:127.0.0.1"],
)  # fmt: skip
def test_the_loopback_is_ours_however_it_is_written(host: str) -> None:
    assert is_own_address(host)


@pytest.mark.parametrize(
    "host",
    ["", "203.0.113.7", "2001:db8::7", "224.0.0.1", "255.255.255.255", "127.example", "localhost.example",
     "vllm", "x" * 300, "fe80::7%none", "\udc80", "a..b"],
)  # fmt: skip
def test_names_and_other_addresses_are_not_ours(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = socket.getaddrinfo

    def numeric_only(name: str, port: int, **options: int) -> object:
        assert options["flags"] & socket.AI_NUMERICHOST, "a resolver was asked"
        return asked(name, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", numeric_only)
    assert not is_own_address(host)
