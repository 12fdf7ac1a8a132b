"""What a browser may do with the page: nothing but its own style and script, by their hashes."""

import base64
import hashlib

from sidecar.page.style import SCRIPT, STYLE


def digest(text: str) -> str:
    """A text as a policy of contents names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; style-src {digest(STYLE)}; script-src {digest(SCRIPT)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy: nothing but this style and this script; only ourselves may be asked."""
FILE_POLICY = f"default-src 'none'; style-src {digest(STYLE)}; base-uri 'none'; form-action 'none'"
