"""The answer of ``/version`` -> the release that runs."""

import json
import re

VERSION = re.compile(r"[0-9A-Za-z.+_-]{1,64}")


def parse_version(body: bytes) -> str | None:
    """The version in ``{"version": "0.32.0"}`` (vLLM since 0.2); None for any other answer."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    version = answer.get("version") if isinstance(answer, dict) else None
    return version if isinstance(version, str) and is_version(version) else None


def is_version(text: str) -> bool:
    """Whether a text can be a release's number."""
    return VERSION.fullmatch(text) is not None
