"""The plans of specs that lie beside another one, by the names of their kernels."""

import functools
from pathlib import Path

from kgen.errors import KgenError, Problem, SpecError
from kgen.plan.dispatch_rules import UNKNOWN
from kgen.plan.model import MatmulPlan
from kgen.spec.keys import closest
from kgen.spec.load import load_file
from kgen.spec.names import name_fault
from kgen.spec.source import SourcedSpec

MATMUL = "matmul"
# Names that a dispatch module gives to something of its own.
OWN = frozenset({"BUCKETS", "Choice", "KERNELS", "Kernel", "choose"})


class Beside:
    """The specs in the directory of one of them."""

    def __init__(self, source: SourcedSpec) -> None:
        self._source = source
        self._file = Path(source.path)
        self._broken: list[str] = []

    def plan_of(self, name: str, key: str) -> MatmulPlan | Problem:
        """Returns the plan of the kernel `name`, which stands at `key`, or why not."""
        from kgen.plan import make_plan

        problem = functools.partial(self._source.problem, key, UNKNOWN.code)
        shown = f'bucket.kernel = "{name}"' if name.isprintable() else key
        if name == self._source.name or name in OWN or name_fault(name) is not None:
            return problem(
                f"{shown} cannot be the name of a kernel here",
                hint="it must be importable, and not a name of this module's own",
            )
        found = self._specs.get(name)
        if found is None:
            near = closest(name, list(self._specs))
            hint = None if near is None else f'did you mean "{near}"?'
            if self._broken:
                hint = f"these specs cannot be read: {', '.join(self._broken)}"
            return problem(
                f"{shown} is not among the specs beside this one",
                allowed=", ".join(sorted(self._specs)) or "there are none",
                hint=hint,
            )
        if found.spec.kernel.op != MATMUL:
            return problem(
                f"{shown} is no matmul but a {found.spec.kernel.op}",
                allowed='a kernel with op = "matmul"',
            )
        try:
            made = make_plan(found)
        except SpecError as error:
            codes = ", ".join(sorted({problem.code for problem in error.problems}))
            return problem(
                f"{shown} is not legal itself: {codes}",
                hint=f"kgen explain {found.path}",
            )
        assert isinstance(made, MatmulPlan), "the plan of a matmul"
        tables = {
            "an epilogue": "[[epilogue]]" if made.epilogue else "",
            "scales": "[scales]" if made.scale_block else "",
            "gradients": "kernel.autodiff" if made.autodiff else "",
        }
        for what, table in tables.items():
            if table:
                return problem(
                    f"{shown} has {what}, which a dispatch module cannot pass on",
                    allowed=f"a kernel without {table}",
                )
        return made

    @functools.cached_property
    def _specs(self) -> dict[str, SourcedSpec]:
        """The specs by their names; those that cannot be read are noted."""
        found: dict[str, SourcedSpec] = {}
        for path in sorted(self._file.parent.glob("*.toml")):
            if path.name.startswith(".") or path.name == self._file.name:
                continue
            try:
                found |= {spec.name: spec for spec in load_file(path)}
            except KgenError:
                self._broken.append(path.name)
        return found
