"""A module's code, whatever its header says of digests.

The digests in the comments above a module's imports tell of its making: from which spec
and template. A template that renders the same code needs no new proof and no new
measurement.
"""

import hashlib
import re

_COMMENT = re.compile(r"^#.*", re.MULTILINE)
_IMPORT = re.compile(r"^(?:import|from) ", re.MULTILINE)
_DIGEST = re.compile(r"\b[0-9a-f]{12}\b")


def without_digests(source: str) -> str:
    """Returns a module's text without what its leading comments say of digests."""
    code = _IMPORT.search(source)
    end = code.start() if code else 0
    head = _COMMENT.sub(lambda comment: _DIGEST.sub("", comment[0]), source[:end])
    return head + source[end:]


def code_digest(source: str) -> str:
    """Returns the first 12 hex digits of the SHA-256 of `without_digests`."""
    return hashlib.sha256(without_digests(source).encode()).hexdigest()[:12]
