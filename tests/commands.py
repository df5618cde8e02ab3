"""Runs commands in this process."""

import dataclasses

from click.testing import CliRunner

from kgen.cli import cli


@dataclasses.dataclass(frozen=True)
class Outcome:
    exit_code: int
    stdout: str
    stderr: str


def kgen(*arguments: object) -> Outcome:
    """Returns what `kgen arguments` prints, and its exit code."""
    result = CliRunner().invoke(cli, list(map(str, arguments)), prog_name="kgen")
    assert not result.exception or isinstance(result.exception, SystemExit)
    return Outcome(result.exit_code, result.stdout, result.stderr)
