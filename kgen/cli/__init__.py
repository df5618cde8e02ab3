"""The command `kgen`: its subcommands, and how errors end it.

Every subcommand is a module with a click command called `command`, imported when it is
run: `kgen --help` loads none of them. An old Python must be able to read this file, so
that it can say what is wrong.
"""

import sys

if sys.version_info < (3, 12):  # noqa: UP036
    sys.stderr.write(
        "error: kgen needs Python 3.12 or newer; this is Python {}.{} ({})\n".format(  # noqa: UP032
            sys.version_info[0], sys.version_info[1], sys.executable
        )
    )
    sys.exit(2)

import contextlib
import importlib
import os
import signal
import threading
import traceback
from typing import TYPE_CHECKING, Any

import click

from kgen import __version__
from kgen.errors import ExitCode, KgenError, SpecError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Each command's module, and what it is for.
COMMANDS = {
    "render": "Render, verify and write kernel modules from specs.",
    "explain": "Show the plan of a spec: tiles, SMEM, registers, roofline.",
    "list": "List the kernels that specs describe.",
    "new": "Start a new spec.",
    "schema": "Print the JSON Schema of specs.",
    "rule": "Explain the rules that a spec must obey.",
    "doctor": "Show what can be rendered and verified on this machine.",
}

INTERNAL_ERROR = 70  # EX_SOFTWARE of sysexits.h.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM
PIPE_CLOSED = 128 + signal.SIGPIPE

EXIT_CODES = """\b
Exit codes:
  0    fine
  1    --check found differences
  2    usage: the command line is wrong
  3    a spec is invalid; nothing was written
  4    verification failed
  5    a file could not be read or written
  70   a fault of kgen; KGEN_DEBUG=1 shows where
  130  interrupted, 141 the reader of the output went away, 143 terminated
"""


class Commands(click.Group):
    """A group that imports a command when it is asked for, and reports every error."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]  # `list` is a submodule here, once it is imported.

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"kgen.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if (
            name not in COMMANDS
            and not name.startswith("-")
            and not ctx.resilient_parsing
        ):
            import difflib

            close = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        command = self.get_command(ctx, name)
        return name, command, args[1:]

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        options = click.Command.shell_complete(self, ctx, incomplete)
        return options + [
            CompletionItem(name, help=purpose)
            for name, purpose in COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def invoke(self, ctx: click.Context) -> Any:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread:
            # Ends as ctrl-C does: workers are stopped, temporary files removed.
            before = signal.signal(signal.SIGTERM, _terminate)
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:
            ctx.exit(report_error(error))
        finally:
            if in_main_thread:
                signal.signal(signal.SIGTERM, before)
        return result


@click.group(cls=Commands, epilog=EXIT_CODES)
@click.version_option(__version__, prog_name="kgen", message="%(prog)s %(version)s")
def cli() -> None:
    """Turns kernel specs into standalone JAX Pallas kernel modules.

    A spec is planned, rendered, formatted and verified; only a module that passed is
    written. `kgen COMMAND --help` tells more.
    """


def main() -> None:
    """Runs the command line; ends the process with one of `EXIT_CODES`."""
    try:
        cli(prog_name="kgen")
    except Exception as error:  # Of the help or the completion: not in a command.
        sys.exit(report_error(error))


def report_error(error: BaseException) -> int:
    """Tells the user about `error` without a traceback; returns the exit code.

    With KGEN_DEBUG in the environment, the traceback of what is unexpected comes first.
    """
    from kgen.report import format_error

    if isinstance(error, KeyboardInterrupt):
        code, text = INTERRUPTED, "interrupted"
    elif isinstance(error, BrokenPipeError):
        _discard_output()
        return PIPE_CLOSED
    elif isinstance(error, SpecError):
        count = len(error.problems)
        found = f"Found {count} problem{'' if count == 1 else 's'}."
        code, text = error.exit_code, f"{error}\n{found}"
    elif isinstance(error, KgenError):
        code, text = error.exit_code, format_error(str(error))
    else:
        if os.environ.get("KGEN_DEBUG"):
            traceback.print_exception(error)
        if isinstance(error, OSError):
            _discard_output()
            code, text = ExitCode.IO, format_error(str(error))
        else:
            code = INTERNAL_ERROR
            text = format_error(
                f"kgen failed unexpectedly: {type(error).__name__}: {error}\n"
                "  hint: please report this; KGEN_DEBUG=1 shows where it happened"
            )
    click.echo(text, err=True, color=True)
    return int(code)


def _terminate(_number: int, _frame: object) -> None:
    raise SystemExit(TERMINATED)


def _discard_output() -> None:
    """Lets stdout go nowhere: what is left in its buffer cannot be written either."""
    with contextlib.suppress(OSError, ValueError):  # Replaced by what is no file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
