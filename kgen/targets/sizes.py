"""The sizes of a `--shape`, as a module takes them."""

import dataclasses
import math

from kgen.errors import UsageError
from kgen.module_cases import EVERY_SIZE
from kgen.shapes import MOST_MATRICES, hint_of_sign, parse_batch, parse_sizes
from kgen.verify.request import RequestCase

FORM = "M,N,K such as 256,512,1024"
FORMS = f"{FORM}, or a batch of them such as 64x256,512,1024"


def sized(
    text: str, multiples: tuple[int, int, int], what: str, *, batched: bool
) -> RequestCase:
    """Returns the case of a `--shape`, which may have a batch in front of it.

    Args:
      text: The `--shape`.
      multiples: What m, n and k must be multiples of.
      what: What the module is called.
      batched: Whether it takes a batch.

    Raises:
      UsageError: the module cannot do them.
    """
    found = parse_batch(text)
    if found is None:
        raise _no_sizes(text, FORMS if batched else FORM)
    batch, size = found
    if batch and not batched:
        raise UsageError(f"--shape {text!r}: {what} takes no batch\n  allowed: {FORM}")
    if not 0 < math.prod(batch) <= MOST_MATRICES:
        raise UsageError(
            f"--shape {text!r}: a batch has one matrix or more, {MOST_MATRICES:,} at most"
        )
    m, n, k = _checked(text, size, multiples, what)
    return RequestCase(m=m, n=n, k=k, a_batch=batch, b_batch=batch)


def sizes(
    text: str, multiples: tuple[int, int, int], what: str
) -> tuple[int, int, int]:
    """Returns the sizes of a `--shape`, if a module can do them.

    Args:
      text: The `--shape`.
      multiples: What m, n and k must be multiples of.
      what: What the module is called.

    Raises:
      UsageError: it cannot.
    """
    found = parse_sizes(text)
    if found is None:
        raise _no_sizes(text, FORM)
    return _checked(text, found, multiples, what)


def _no_sizes(text: str, allowed: str) -> UsageError:
    return UsageError(
        f"--shape {text!r} is not three sizes, as a matmul has them\n"
        f"  allowed: {allowed}{hint_of_sign(text)}"
    )


def _checked(
    text: str,
    found: tuple[int, int, int],
    multiples: tuple[int, int, int],
    what: str,
) -> tuple[int, int, int]:
    """Returns sizes that are multiples of what they must be."""
    if multiples == EVERY_SIZE:
        return found
    for axis, size, multiple in zip("mnk", found, multiples, strict=True):
        if size == 0 or size % multiple:
            raise UsageError(
                f"--shape {text!r}: {axis} = {size} is not a positive multiple of"
                f" {multiple}, as {what} needs it"
            )
    return found


def differentiated(
    case: RequestCase, multiples: tuple[int, int, int] | None
) -> RequestCase:
    """Returns a case with gradients, if there are any of its size."""
    size = case.m, case.n, case.k
    has_gradients = multiples is not None and not any(
        length % unit for length, unit in zip(size, multiples, strict=True)
    )
    return dataclasses.replace(case, differentiate=has_gradients)
