"""A module's code, whatever its header says of its making.

The comments above a module's imports tell from which spec and template it was made, by
digests, and what it passed. A template that renders the same code needs no new proof, and
neither that nor a proof needs a new measurement.
"""

import hashlib
import re

_COMMENT = re.compile(r"^#.*", re.MULTILINE)
_IMPORT = re.compile(r"^(?:import|from) ", re.MULTILINE)
_DIGEST = re.compile(r"\b[0-9a-f]{12}\b")
_PASSED = re.compile(r"^# (?:verified:[\w ,()\n#]*|unverified)\.$", re.MULTILINE)


def without_digests(source: str) -> str:
    """Returns a module's text without what its leading comments say of digests."""
    head, code = _parted(source)
    return _COMMENT.sub(lambda comment: _DIGEST.sub("", comment[0]), head) + code


def code_digest(source: str) -> str:
    """Returns 12 hex digits of the SHA-256 of a module's text without its making."""
    head, code = _parted(without_digests(source))
    text = _PASSED.sub("", head) + code
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _parted(source: str) -> tuple[str, str]:
    """Returns a module's docstring and leading comments, and the rest."""
    code = _IMPORT.search(source)
    end = code.start() if code else 0
    return source[:end], source[end:]
