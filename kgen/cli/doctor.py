"""`kgen doctor`: what this machine has, and what can be verified on it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgen.cli._output import format_option, print_json, print_tables

if TYPE_CHECKING:
    from kgen.doctor import Findings
    from kgen.tables import Table

# What each key of `--format json` means, in the order of the keys.
FIELDS = {
    "kgen": "Version of kgen.",
    "python": "Version of Python.",
    "platform": "Operating system and machine.",
    "packages": "Installed version of each package that kgen needs, or null.",
    "cuda_plugins": "The same for JAX's CUDA plugins.",
    "jax": "The JAX that is imported: its version or null (`imported`), the versions "
    "that kgen needs (`required`), whether it is one of them (`supported`), whether "
    "Pallas Mosaic GPU can be imported (`mosaic_gpu`), `devices` with `platform`, "
    "`kind` and `compute_capability`, and the `error` or null.",
    "driver": "Version of the NVIDIA driver, or null.",
    "ptxas": "Every ptxas that was found: `where`, `version`.",
    "cache_dir": "Directory of remembered verdicts.",
    "cache_writable": "Whether kgen can write there.",
    "levels": "Verification levels: `level`, `possible`, `reason`.",
    "warnings": "What may go wrong.",
    "can_render": "Whether `kgen render` can do all that it does by default.",
}


@click.command()
@format_option
@click.pass_context
def command(ctx: click.Context, output_format: str) -> None:
    """Show what kgen finds on this machine, and what can be verified here.

    Exits with 0 if `kgen render` can do all it does by default: check the plan, lower
    and simulate. Exits with 1 otherwise. A missing GPU is no fault.
    """
    from kgen.doctor import examine
    from kgen.errors import ExitCode

    findings = examine(_cache_dir())
    if output_format == "json":
        print_json(_figures(findings))
    else:
        print_tables(_tables(findings))
    if not findings.can_render:
        ctx.exit(ExitCode.DIFFERS)


def _figures(findings: "Findings") -> dict[str, Any]:
    """Returns the findings as JSON."""
    import dataclasses

    from kgen.doctor import JAX_RANGE_TEXT, in_jax_range

    probe = findings.probe
    return {
        "kgen": findings.kgen,
        "python": findings.python,
        "platform": findings.platform,
        "packages": findings.packages,
        "cuda_plugins": findings.cuda_plugins,
        "jax": {
            "imported": probe.jax,
            "required": JAX_RANGE_TEXT,
            "supported": probe.jax is not None and in_jax_range(probe.jax),
            "mosaic_gpu": probe.mosaic_gpu,
            "devices": [dataclasses.asdict(device) for device in probe.devices],
            "error": probe.error,
        },
        "driver": findings.driver,
        "ptxas": [
            {"where": where, "version": version} for where, version in findings.ptxas
        ],
        "cache_dir": findings.cache_dir,
        "cache_writable": findings.cache_writable,
        "levels": [dataclasses.asdict(level) for level in findings.levels],
        "warnings": list(findings.warnings),
        "can_render": findings.can_render,
    }


def _tables(findings: "Findings") -> "list[Table]":
    from kgen.tables import Table

    tables = [
        Table(title="This machine", columns=("", ""), rows=_machine_rows(findings)),
        Table(
            title="What can be verified here",
            columns=("level", "possible", "why"),
            rows=tuple(
                (level.level, "yes" if level.possible else "no", level.reason)
                for level in findings.levels
            ),
        ),
    ]
    if findings.warnings:
        rows = tuple((warning,) for warning in findings.warnings)
        tables.append(Table(title="Warnings", columns=("",), rows=rows))
    return tables


def _machine_rows(findings: "Findings") -> tuple[tuple[str, str], ...]:
    from kgen.doctor import JAX_RANGE_TEXT

    probe = findings.probe
    installed = findings.packages | findings.cuda_plugins
    rows = [
        ("kgen", findings.kgen),
        ("Python", findings.python),
        ("platform", findings.platform),
        *((name, version or "not installed") for name, version in installed.items()),
        (
            "JAX that is imported",
            f"{probe.jax or 'none'} (kgen needs {JAX_RANGE_TEXT})",
        ),
    ]
    for device in probe.devices:
        capability = device.compute_capability
        suffix = "" if capability is None else f", compute capability {capability}"
        rows.append(("device", f"{device.kind} ({device.platform}{suffix})"))
    if not probe.devices:
        rows.append(("device", "none"))
    if probe.error is not None:
        rows.append(("JAX says", probe.error))
    rows.append(("NVIDIA driver", findings.driver or "not found"))
    for where, version in findings.ptxas:
        rows.append(("ptxas", f"{version} ({where})"))
    writable = "writable" if findings.cache_writable else "not writable"
    rows.append(("remembered verdicts", f"{findings.cache_dir} ({writable})"))
    return tuple(rows)


def _cache_dir() -> Path:
    """Returns where verdicts are remembered."""
    from kgen.verify.cache import directory

    return directory()
