"""Runs the level `gpu` of `kgen verify` on every generated module, several at once.

    python benchmarks/gpu_proof.py --out benchmarks/results/gpu_proof.json

Each module runs at its own sizes, on small integers and on normal values, 50 times each,
in a process of its own with a time limit: a kernel that deadlocks or aborts is a result.
Only jax, numpy and this directory's parent are needed.
"""

import argparse
import dataclasses
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from kgen.code import code_digest  # noqa: E402
from kgen.errors import KgenError  # noqa: E402
from kgen.measure import bench  # noqa: E402
from kgen.targets import find_targets  # noqa: E402
from kgen.targets.asked import Asked  # noqa: E402
from kgen.verify import verify  # noqa: E402
from kgen.verify.request import GPU  # noqa: E402

AT_ONCE = 12


def prove(target, limit):
    """Returns the record of a module."""
    verdict = verify(target.request, levels=(GPU,), timeout=limit, cache=False)
    return {
        "name": target.request.name,
        "source_digest": code_digest(target.request.source),
        "sizes": [str(case) for case in target.request.cases],
        "right": verdict.failure is None,
        "levels": [dataclasses.asdict(level) for level in verdict.levels],
    }


def line(record):
    """Returns what became of a module, on a line."""
    last = record["levels"][-1]
    told = last["detail"] or ", ".join(last["notes"])
    verdict = "right" if record["right"] else "WRONG"
    return f"{record['name']:32} {verdict}  {last['seconds']:5.1f} s  {told}"


def run(options):
    directory = str(ROOT / "generated")
    targets = find_targets([directory], Asked(), lambda futures, _: futures)
    chosen = [
        target
        for target in targets
        if not options.names or target.request.name in options.names
    ]
    if not chosen:
        sys.exit(f"no module of {directory} has such a name")
    machine = dataclasses.asdict(bench.probe(chosen[0].request.arch))
    known = kept(options.out, machine, chosen) if options.resume else {}
    left = [target for target in chosen if target.request.name not in known]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for record in threads.map(lambda each: prove(each, options.limit), left):
            known[record["name"]] = record
            print(line(record), flush=True)
            records = [known[name] for name in sorted(known)]
            document = {"machine": machine, "modules": records}
            options.out.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{len(chosen) - len(left)} kept, {len(left)} run")
    return int(not all(record["right"] for record in known.values()))


def kept(path, machine, targets):
    """Returns what an earlier run found of the same texts on the same machine, by name."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    if document["machine"] != machine:
        return {}
    digests = {each.request.name: code_digest(each.request.source) for each in targets}
    return {
        record["name"]: record
        for record in document["modules"]
        if digests.get(record["name"]) == record["source_digest"]
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="where the JSON goes")
    parser.add_argument("--resume", action="store_true", help="keep what is in OUT")
    parser.add_argument("--limit", type=float, default=120, help="seconds per module")
    parser.add_argument("names", nargs="*", help="modules; all of them by default")
    try:
        return run(parser.parse_args())
    except KgenError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    sys.exit(main())
