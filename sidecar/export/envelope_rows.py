"""Rows about a measured envelope: its bounds, and whether it still holds."""

from collections.abc import Iterator

from sidecar.export.bounded import Row, Scene
from sidecar.telling.plain import plain_text


def info_rows(scene: Scene) -> Iterator[Row]:
    """Which envelope it is."""
    envelope = scene.report.envelope
    if envelope is not None:
        names = (envelope.name, envelope.model_name or "", envelope.vllm_version or "")
        yield tuple(plain_text(name) for name in names), 1.0


def limit_rows(scene: Scene) -> Iterator[Row]:
    """The measured bounds."""
    envelope = scene.report.envelope
    for name, value in {} if envelope is None else envelope.limits.items():
        yield (name,), value


def valid_rows(scene: Scene) -> Iterator[Row]:
    """Whether the server is as it was measured, where that can be told."""
    envelope = scene.report.envelope
    for drift, valid in {} if envelope is None else envelope.valid.items():
        yield (drift.value,), float(valid)
