"""A real vLLM is asked for here: where it is missing nothing is skipped, the tests fail."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_vllm.server import VENV, VLLM, VllmServer, vllm_server
from tools.make_tiny_model import make_tiny_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model."""
    assert VLLM.exists(), f"no vLLM in {VENV}: make test-vllm installs it"
    folder = tmp_path_factory.mktemp("model")
    make_tiny_model(folder)
    return folder


@pytest.fixture(scope="session")
def plain_server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """A server that serves, idle; whoever stops it starts it again."""
    with vllm_server(model, tmp_path_factory.mktemp("plain")) as server:
        server.await_ready()
        yield server
