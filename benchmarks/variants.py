"""Times variants of specs in turns with each other and with XLA: what was tried.

    python benchmarks/variants.py benchmarks/h200_variants.json \
        --out benchmarks/results/h200_variants.json

The list holds groups, each a spec, a size and variants of the spec by name. A variant
gives keys other values, or takes them out (null):

    [{"spec": "specs/glu/bf16_glu_silu.toml", "shape": [4096, 14336, 4096],
      "variants": {"two slots": {"tile.k": 128, "pipeline.max_concurrent_steps": 2}}}]

The spec as it is takes part, too. A group has a process of its own and compiles while
others are measured. Every kernel is checked as `kgen bench` does it before it is timed;
one that is refused, wrong or does not compile has that as its result.

`kgen tune` with a `[tune]` table searches; this compares a few, all in the same minute.
"""

import argparse
import dataclasses
import fcntl
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from kgen import operations  # noqa: E402
from kgen.arch import ARCHS  # noqa: E402
from kgen.emit.render import render_unformatted  # noqa: E402
from kgen.errors import KgenError  # noqa: E402
from kgen.measure import bench, machine, operands, timing  # noqa: E402
from kgen.measure.computed import Computed  # noqa: E402
from kgen.spec import tune  # noqa: E402
from kgen.spec.document import document_of, text_of  # noqa: E402
from kgen.spec.load import load_file  # noqa: E402
from kgen.tune.candidate import Candidate  # noqa: E402
from kgen.tune.prune import Pruner  # noqa: E402
from kgen.verify import repeats  # noqa: E402
from kgen.verify.explain import LevelError  # noqa: E402
from kgen.verify.request import RequestCase  # noqa: E402
from kgen.verify.worker import load  # noqa: E402

AS_IT_IS = "as it is"
NO_GROUPS = (
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


def read_groups(path):
    """Returns the groups of a list; ends the script with a message if it is none."""
    try:
        groups = json.loads(path.read_text(encoding="utf-8"))
        if not groups:
            raise ValueError("it is empty")
        for group in groups:
            *_, _m, _n, _k = map(int, group["shape"])
            variants = group["variants"].values()
            _ = ROOT / group["spec"], [values.items() for values in variants]
    except (OSError, *NO_GROUPS) as error:
        sys.exit(
            f"{path} is no list of groups: {type(error).__name__}: {error}\n"
            '  allowed: [{"spec": ..., "shape": [m, n, k], "variants": {...}}, ...]'
        )
    return groups


def plans_of(group):
    """Returns plans by name, and why others have none."""
    path = ROOT / group["spec"]
    (source,) = load_file(path)
    *batch, m, n, k = group["shape"]
    document = tune.without(document_of(text_of(path, str(path)), str(path)))
    pruner = Pruner(source, document, (m, n, k), tuple(batch))
    plans, refused = {}, {}
    for name, values in {AS_IT_IS: {}, **group["variants"]}.items():
        # The sizes that a spec names are not those that are measured here.
        candidate = Candidate(values=(*values.items(), ("test.shapes", None)))
        try:
            plans[name] = pruner.plan(candidate).plan
        except KgenError as error:
            refused[name] = str(error)
    return plans, refused


def request_of(plan, source, shape):
    """Returns what is asked of a kernel at one size."""
    *batch, m, n, k = shape
    made = operations.call(operations.get(plan.op), "request", plan, source)
    case = RequestCase(m=m, n=n, k=k, a_batch=tuple(batch), b_batch=tuple(batch))
    return dataclasses.replace(made, cases=(case,))


class Group:
    """Variants of one spec at one size."""

    def __init__(self, group, directory):
        """Renders and compiles them; nothing runs on the GPU yet."""
        self.shape = group["shape"]
        self.plans, self.outcomes = plans_of(group)
        self.kernels = {}
        if AS_IT_IS not in self.plans:
            raise KgenError(self.outcomes[AS_IT_IS])
        for number, (name, plan) in enumerate(self.plans.items()):
            source = render_unformatted(plan)
            request = request_of(plan, source, self.shape)
            computed = Computed.of(request)
            path = directory / f"variant_{number}.py"
            path.write_text(source, encoding="utf-8")
            module = load(path.stem, path)
            function = getattr(module, request.function)
            structs = tuple(computed.structs())
            count = operands.count_sets(
                computed.problem.operand_bytes, machine.l2_bytes(request.arch)
            )
            try:
                self.kernels[name] = (
                    repeats.Poisoned(function, structs),
                    timing.compile_each(function, [structs] * count),
                )
            except Exception as error:
                self.outcomes[name] = f"{type(error).__name__}: {error}"[:300]
            if name == AS_IT_IS:
                self.computed, self.reference = computed, module.reference

    def measure(self, rounds):
        """Checks and times them, and XLA's forms; the GPU is theirs alone."""
        arch = self.computed.request.arch
        sets = self.computed.draw(machine.l2_bytes(arch))
        check = self.computed.check(self.reference)
        executables = {}
        for name, (kernel, compiled) in self.kernels.items():
            try:
                check(kernel)
                executables[name] = compiled
            except LevelError as error:
                self.outcomes[name] = f"wrong: {error}"
        forms = self.computed.xla(sets, self.reference)
        peers = {f"XLA {form}".strip(): forms[form] for form in forms}
        samples = timing.interleave({**executables, **peers}, sets, rounds=rounds)
        best = min(samples[name].median for name in peers)
        return {
            name: {
                "us": round(each.median, 3),
                "spread": round(each.spread, 4),
                "xla_over_it": round(best / each.median, 4),
            }
            for name, each in samples.items()
        }


def run_group(options):
    """Measures one group in this process."""
    group = read_groups(options.list)[options.group]
    with tempfile.TemporaryDirectory() as directory:
        variants = Group(group, Path(directory))
    with Path(options.lock).open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        times = variants.measure(options.rounds)
    print(json.dumps({**group, "times": times, "others": variants.outcomes}))


def start(options, number):
    command = [sys.executable, __file__, str(options.list), "--group", str(number)]
    command += ["--lock", options.lock, "--rounds", str(options.rounds)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def result(process, group, until):
    """Returns what a group's process says, or why it says nothing."""
    try:
        out, complaints = process.communicate(timeout=max(1, until - time.monotonic()))
        return json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        return {**group, "times": {}, "others": {"all": complaints[-600:]}}
    except subprocess.TimeoutExpired:
        process.kill()
        return {**group, "times": {}, "others": {"all": "not done in time"}}


def line(name, figures):
    return f"  {name:32} {figures['us']:9.2f} us  {figures['xla_over_it']:.4f}"


def run(options):
    """Measures all groups, each in a process of its own."""
    groups = read_groups(options.list)
    found = vars(bench.probe(next(iter(ARCHS))))
    until = time.monotonic() + options.limit
    processes = [start(options, number) for number in range(len(groups))]
    results = []
    for process, group in zip(processes, groups, strict=True):
        results.append(result(process, group, until))
        document = {"machine": found, "rounds": options.rounds, "groups": results}
        options.out.write_text(json.dumps(document, indent=1) + "\n")
        print(group["spec"], group["shape"])
        times = results[-1]["times"].items()
        for name, figures in sorted(times, key=lambda each: each[1]["us"]):
            print(line(name, figures))
        for name, why in results[-1]["others"].items():
            print(f"  {name:32} {why[:100]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list", type=Path, help="JSON of groups")
    parser.add_argument("--out", type=Path, help="where the JSON goes")
    parser.add_argument("--rounds", type=int, default=10, help="rounds of every kernel")
    parser.add_argument("--limit", type=float, default=170, help="seconds for all")
    parser.add_argument("--lock", help="a file that is locked by whoever measures")
    parser.add_argument("--group", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        if options.group is not None:
            run_group(options)
            return
        with tempfile.NamedTemporaryFile() as lock:
            options.lock = options.lock or lock.name
            run(options)
    except KgenError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    sys.exit(main())
