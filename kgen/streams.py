"""Standard streams that are closed, full, or whose reader has gone away.

Messages go to stderr. Whether they can be written changes neither what a command does
nor its exit code, as long as there is a reader.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

import click


def open_closed() -> None:
    """Opens those of the standard streams that the caller of kgen has closed.

    Otherwise the next file that is opened would become that stream. What is written to
    a closed stderr is lost; writing to a closed stdout stays an error, for it may be
    what kgen was called for.
    """
    streams = (
        ("stdin", "r", os.O_RDONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    )
    for number, (name, mode, flags) in enumerate(streams):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: this one.
            os.set_inheritable(os.open(os.devnull, flags), True)
        if getattr(sys, name) is None:
            stream = os.fdopen(number, mode, encoding="utf-8", closefd=False)
            setattr(sys, name, stream)


def tell(text: str) -> None:
    """Writes a message to stderr.

    Raises:
      BrokenPipeError: nobody reads any more.
    """
    try:
        click.echo(text, err=True, color=True)
    except BrokenPipeError:
        raise
    except OSError:
        discard(sys.stderr)


@contextlib.contextmanager
def losing_messages() -> Iterator[None]:
    """Lets the block end where stderr cannot be written, for whatever reason."""
    try:
        yield
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Lets `stream` go nowhere: what is left in its buffer cannot be written either."""
    with contextlib.suppress(OSError, ValueError):  # Replaced by what is no file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
