"""What `kgen verify` is to verify: specs, rendered modules, functions of any file.

specs/fp16_128x128.toml       what the spec yields, rendered anew; nothing is written
specs                         every spec of a directory
generated/fp16_128x128.py     a module as it is, edited or not
generated                     every module of a directory without specs
kernels/mine.py:attention     any function that runs Mosaic GPU kernels
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kgen.targets.asked import Asked, Target
from kgen.targets.functions import of_function
from kgen.targets.modules import of_module
from kgen.targets.specs import of_specs
from kgen.workers import Track

_FUNCTION = re.compile(r"(?P<path>.+\.py):(?P<name>[^:/]*)")


def find_targets(names: Sequence[str], asked: Asked, track: Track) -> Iterator[Target]:
    """Yields what each of `names` stands for, in their order.

    Raises:
      SpecError: specs are invalid; every problem of every spec is told.
      FileError: a file cannot be read.
      UsageError: a name stands for nothing, or a shape cannot be.
    """
    specs: list[Path] = []
    for name in names:
        if match := _FUNCTION.fullmatch(name):
            yield from of_specs(specs, asked, track)
            yield of_function(Path(match["path"]), match["name"], asked)
        elif modules := _modules(Path(name)):
            yield from of_specs(specs, asked, track)
            for path in modules:
                yield of_module(path, asked)
        else:
            specs.append(Path(name))
            continue
        specs = []
    yield from of_specs(specs, asked, track)


def _modules(path: Path) -> tuple[Path, ...]:
    """Returns the modules that a path stands for; none if it stands for specs."""
    if path.suffix == ".py":
        return (path,)
    if not path.is_dir() or any(path.glob("*.toml")):
        return ()
    return tuple(p for p in sorted(path.glob("*.py")) if p.name != "__init__.py")
