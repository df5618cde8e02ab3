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

# The core of the module `signal`, which itself takes long to import.
import _signal  # type: ignore[import-not-found]

# While the imports below run, ctrl-C is a silent end and no traceback.
try:
    if _INTERRUPTIBLE := (
        _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    ):
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
except ValueError:  # Not in the main thread.
    _INTERRUPTIBLE = False

import errno
import importlib
import os
import signal
import threading
import traceback
from typing import TYPE_CHECKING, Any

import click

from kgen import __version__, streams
from kgen.errors import ExitCode, KgenError, SpecError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Each command's module, and what it is for.
COMMANDS = {
    "render": "Render, verify and write kernel modules from specs.",
    "vendor": "Keep kernels in another repository, and check them there.",
    "verify": "Prove kernels: specs, modules, functions of any file.",
    "bench": "Measure kernels on the GPU, beside XLA and others.",
    "tune": "Find the fastest kernel of a spec at one shape.",
    "explain": "Show the plan of a spec: tiles, SMEM, registers, roofline.",
    "list": "List the kernels that specs describe.",
    "new": "Start a new spec.",
    "migrate": "Rewrite specs of an older format, keeping comments.",
    "diff": "Tell what changes from one spec, or one kgen, to another.",
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
  1    --check found differences, --compare something slower
  2    usage: the command line is wrong
  3    a spec is invalid; nothing was written
  4    verification failed
  5    a file or the output could not be read or written
  70   a fault of kgen; KGEN_DEBUG=1 shows where
  130  interrupted, 141 the reader of the output went away, 143 terminated
"""


class Commands(click.Group):
    """A group that imports a command when it is asked for, and reports every error."""

    def make_context(
        self,
        info_name: "str | None",
        args: "list[str]",
        parent: "click.Context | None" = None,
        **extra: Any,
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except OSError as error:
            # Of --help. Left to click, it would end with 1.
            raise click.exceptions.Exit(report_error(error)) from None

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


class _Interrupts:
    """Turns ctrl-C into KeyboardInterrupt, as Python does, and knows that it came.

    An import, a callback or a destructor may swallow the exception, or make another one
    of it.
    """

    came = False

    def install(self) -> None:
        if _INTERRUPTIBLE:
            signal.signal(signal.SIGINT, self._raise)
            sys.unraisablehook = self._tell_swallowed

    def end(self) -> None:
        """Leaves what follows, Python's own end, to be ended without a traceback."""
        if _INTERRUPTIBLE:
            signal.signal(signal.SIGINT, signal.SIG_DFL)

    def _raise(self, _number: int, _frame: object) -> None:
        self.came = True
        raise KeyboardInterrupt

    def _tell_swallowed(self, unraisable: "sys.UnraisableHookArgs") -> None:
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)


_interrupts = _Interrupts()


def main() -> None:
    """Runs the command line; ends the process with one of `EXIT_CODES`."""
    try:
        _interrupts.install()
        streams.open_closed()
        code = _run()
    except KeyboardInterrupt:  # Once more, while the first was told.
        code = INTERRUPTED
    _interrupts.end()
    sys.exit(INTERRUPTED if _interrupts.came else code)


def _run() -> int:
    """Runs the command line and returns the exit code."""
    try:
        return cli.main(prog_name="kgen", standalone_mode=False) or ExitCode.OK
    except click.ClickException as error:
        with streams.losing_messages():
            error.show()
        return error.exit_code
    except click.Abort:
        return report_error(KeyboardInterrupt())
    except (Exception, KeyboardInterrupt) as error:
        return report_error(error)  # Of the completion: not in a command.


def report_error(error: BaseException) -> int:
    """Tells the user about `error` without a traceback; returns the exit code.

    With KGEN_DEBUG in the environment, the traceback of what is unexpected comes first.
    """
    from kgen.report import format_error

    if isinstance(error, KeyboardInterrupt) or _interrupts.came:
        code, text = INTERRUPTED, "interrupted"
    elif isinstance(error, BrokenPipeError):
        streams.discard(sys.stdout)
        return PIPE_CLOSED
    elif isinstance(error, SpecError):
        count = len(error.problems)
        found = f"Found {count} problem{'' if count == 1 else 's'}."
        code, text = error.exit_code, f"{error}\n{found}"
    elif isinstance(error, KgenError):
        code, text = error.exit_code, format_error(str(error))
    elif isinstance(error, OSError):
        streams.discard(sys.stdout)
        code, text = ExitCode.IO, format_error(_reason(error))
    else:
        code = INTERNAL_ERROR
        text = format_error(
            f"kgen failed unexpectedly: {type(error).__name__}: {error}\n"
            "  hint: please report this; KGEN_DEBUG=1 shows where it happened"
        )
    with streams.losing_messages():
        if os.environ.get("KGEN_DEBUG") and not isinstance(
            error, (KgenError, KeyboardInterrupt)
        ):
            traceback.print_exception(error)
        click.echo(text, err=True, color=True)
    return int(code)


def _terminate(_number: int, _frame: object) -> None:
    raise SystemExit(TERMINATED)


def _reason(error: OSError) -> str:
    from kgen import denied

    if error.errno == errno.EBADF:
        return "standard output is closed"
    if error.errno == errno.ENOENT and error.filename is None:
        return "the current directory is gone\n  hint: change into one that is there"
    if denied.is_denied(error) and (place := denied.place_of(error)) is not None:
        return f"{place}: permission denied\n  hint: {denied.HINT}"
    return str(error)


if _INTERRUPTIBLE:
    signal.signal(signal.SIGINT, signal.default_int_handler)
