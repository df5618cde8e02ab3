"""Runs kernels with planted faults on a GPU: what does each fault do there?

    python benchmarks/mutants_gpu.py pack DIR                    needs kgen and the tests
    python benchmarks/mutants_gpu.py run DIR --out results.json  jax, numpy, kgen.verify

`pack` renders the mutants of tests/mutants, and the kernels without a fault, into a
manifest. `run` gives each a process of its own, several at a time, at the size of its
request (integers and normal values) and, plain products on integers, at some 4096 x
4096 x 4096, where all SMs are busy. What becomes of a mutant, the worst of:

  hang               its kernel did not end within the limit, and was killed
  error              an exception or the end of the process; its first line
  wrong silently     wrong elements and no error
  not bit-identical  the first run is right, another has other bits
  right by luck      nothing to be seen

Each process first computes something plain: if that fails twice, the GPU is taken to
be broken, and nothing more is run. It is tried once more at the end. About 220 kernels
should fit into 550 s on 16 cores; what did not is run by a second call that is given
`--earlier` the results of the first.
"""

import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "tests")]
CHILD = ROOT / "benchmarks" / "mutant_on_gpu.py"
MANIFEST = "manifest.json"
PREPARING_SECONDS = 90.0
TMA_TILE = 64
HEAD = ("name", "group", "kind", "schedule", "digest")
HANG, ERROR, WRONG = "hang", "error", "wrong silently"
VARYING, LUCKY, RIGHT = "not bit-identical", "right by luck", "right"
NOT_RUN = "not run"
ENVIRONMENT = {
    "MOSAIC_GPU_DUMP_PTXAS": "1",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "OPENBLAS_NUM_THREADS": "2",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def pack(directory):
    """Writes the manifest of all mutants."""
    from mutants.catalogue import mutants, originals
    from mutants.model import digest

    entries = [
        {
            "name": base.name,
            "group": "",
            "kind": "",
            "schedule": base.schedule,
            "digest": digest(base),
            "request": base.request.to_json(),
        }
        for base in originals()
    ]
    entries += [
        {
            "name": mutant.name,
            "group": mutant.kind.group,
            "kind": mutant.kind.name,
            "schedule": mutant.schedule,
            "digest": digest(mutant),
            "request": mutant.request.to_json(),
        }
        for mutant in mutants()
    ]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MANIFEST).write_text(json.dumps(entries, indent=1))
    print(f"{len(entries)} kernels in {directory / MANIFEST}")


def key_of(entry):
    """Returns what tells a kernel from others, also from another text of that name."""
    return entry["name"], entry["digest"]


def large_size(entry, least):
    """Returns a multiple of the first case of at least `least` all around.

    It is a multiple of TMA's tiles, too, which divide whatever is larger than they are.
    """
    case = json.loads(entry["request"])["cases"][0]
    units = [math.lcm(case[axis], TMA_TILE) for axis in ("m", "n", "k")]
    return [-(-least // unit) * unit for unit in units]


def prepare(sizes, directory):
    """Writes integer operands and their product for every size.

    Sums of at most 9 k are exact in float32, in whatever order they are added.
    """
    import numpy as np

    for m, n, k in sizes:
        rng = np.random.default_rng([m, n, k])
        a, b = rng.integers(-3, 4, (m, k), "int8"), rng.integers(-3, 4, (k, n), "int8")
        product = a.astype(np.float32) @ b.astype(np.float32)
        for part, array in (("a", a), ("b", b), ("product", product)):
            np.save(directory / f"{m}x{n}x{k}.{part}.npy", array)


class Run:
    """Runs mutants.

    Attributes:
      broken: Why the GPU is taken to be broken; None as long as it works.
    """

    def __init__(self, options, prepared):
        self.options = options
        self.prepared = prepared
        self.deadline = time.monotonic() + options.budget
        self.broken = None
        self._lock = threading.Lock()

    def outcome(self, entry):
        """Returns what becomes of a mutant."""
        for _ in range(2):
            if self.broken:
                return {"outcome": NOT_RUN, "detail": f"the GPU failed: {self.broken}"}
            if time.monotonic() > self.deadline:
                return {"outcome": NOT_RUN, "detail": "out of time"}
            started = time.monotonic()
            with tempfile.TemporaryDirectory() as directory:
                told = self._follow(entry, Path(directory))
            seconds = round(time.monotonic() - started, 1)
            if told.state != "starting":
                return {**told.outcome(bool(entry["kind"])), "seconds": seconds}
        with self._lock:
            self.broken = self.broken or told.detail
        return {"outcome": NOT_RUN, "detail": f"the GPU failed: {told.detail}"}

    def _follow(self, entry, directory):
        """Runs a process to its end or to its limit, and kills what is left of it."""
        job = {
            "request": entry["request"],
            "large": large_size(entry, self.options.large),
            "prepared": str(self.prepared),
            "platform": self.options.platform,
            "runs": self.options.runs,
            "directory": str(directory),
        }
        errors = directory / "stderr"
        (directory / "job.json").write_text(json.dumps(job))
        with errors.open("wb") as stderr, (directory / "job.json").open("rb") as stdin:
            process = subprocess.Popen(
                [sys.executable, str(CHILD)],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={
                    **os.environ,
                    **ENVIRONMENT,
                    "JAX_PLATFORMS": self.options.platform,
                    "TMPDIR": str(directory),
                },
                start_new_session=True,
            )
        told = Told(self.options.limit)
        try:
            told.listen(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.stdout.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                # The driver may take its time to clear a kernel that hangs.
                process.wait(60)
        told.read_errors(errors.read_text(errors="replace"), process.returncode)
        return told


class Told:
    """What a process said, and what that means.

    Attributes:
      state: What it does: `starting`, `ready`, `compiling`, `running`, or `done`.
      detail: Why it did not get to the end.
    """

    def __init__(self, limit):
        self.limits = {"running": limit}
        self.state, self.doing = "starting", ""
        self.results, self.error, self.late, self.detail = [], None, False, ""

    def listen(self, process):
        """Takes events until the process is done, dead or late."""
        pending = b""
        os.set_blocking(process.stdout.fileno(), False)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            last = time.monotonic()
            while self.state != "done":
                limit = self.limits.get(self.state, PREPARING_SECONDS)
                left = last + limit - time.monotonic()
                if left <= 0:
                    self.late = True
                    self.detail = f"no sign within {limit:g} s {self._when()}"
                    return
                if not selector.select(left):
                    continue
                if not (data := os.read(process.stdout.fileno(), 65_536)):
                    self.detail = f"the process ended {self._when()}"
                    return
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
                    last = time.monotonic()

    def _take(self, event):
        kind = event.pop("event")
        if kind == "result":
            self.results.append(event)
            self.state = "ready"
        elif kind == "error":
            self.error = event["text"]
        else:
            self.state, self.doing = kind, " ".join(str(v) for v in event.values())

    def _when(self):
        return f"while {self.state} {self.doing}".rstrip()

    def read_errors(self, text, status):
        """Finds the line that explains an error in what was printed."""
        from kgen.verify import ptxas

        if refusal := ptxas.describe_refusal(ptxas.parse(text)):
            self.error = refusal
        if self.detail and not self.late:
            lines = [line for line in text.splitlines() if line.strip()]
            ended = f"signal {-status}" if (status or 0) < 0 else f"status {status}"
            self.detail += f", {ended}: {lines[-1] if lines else 'no word'}"

    def outcome(self, has_fault):
        """Returns the worst that happened, and all that was measured."""
        wrong = max(self.results, key=lambda r: r["wrong"], default=None)
        varying = [r for r in self.results if r["differing_runs"]]
        detail, about = self.error or self.detail, None
        if self.late and self.state == "running":
            outcome = HANG
        elif detail:
            outcome = ERROR
        elif wrong and wrong["wrong"]:
            outcome, about = WRONG, wrong
        elif varying:
            outcome, about = VARYING, varying[0]
        else:
            outcome = LUCKY if has_fault else RIGHT
        if about:
            size = " x ".join(map(str, about["size"]))
            count = about["wrong"] or about["differing_elements"]
            detail = f"{count} of {about['of']} elements at {size} on {about['inputs']}"
        return {"outcome": outcome, "detail": detail, "results": self.results}


def machine(platform):
    """Returns what the results were made with; in a process of its own."""
    code = (
        "import jax, json; d = jax.devices()[0]; print(json.dumps({'device':"
        " d.device_kind, 'compute_capability': getattr(d, 'compute_capability', None),"
        " 'jax': jax.__version__, 'platform_version': ' '.join("
        "d.client.platform_version.split())}))"
    )
    environment = {**os.environ, **ENVIRONMENT, "JAX_PLATFORMS": platform}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=PREPARING_SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        sys.exit(f"no {platform} device within {PREPARING_SECONDS:g} s")
    if done.returncode:
        sys.exit(f"no {platform} device: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def run(options):
    """Runs all mutants of a manifest and writes what became of them."""
    try:
        entries = json.loads((options.directory / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        sys.exit(
            f"{options.directory} holds no packed mutants: {error}\n  hint: pack it"
        )
    entries = [e for e in entries if options.match in e["name"]]
    earlier = (
        json.loads(options.earlier.read_text())["kernels"] if options.earlier else []
    )
    done = {(k["name"], k["digest"]): k for k in earlier if k["outcome"] != NOT_RUN}
    result = {"machine": machine(options.platform), "runs": options.runs}
    result["limit_s"] = options.limit
    kernels = {e["name"]: done[key] for e in entries if (key := key_of(e)) in done}

    def write():
        ordered = [kernels[e["name"]] for e in entries if e["name"] in kernels]
        text = json.dumps({**result, "kernels": ordered}, indent=1)
        options.out.write_text(text + "\n")

    with tempfile.TemporaryDirectory() as prepared:
        missing = [e for e in entries if e["name"] not in kernels]
        sizes = {tuple(large_size(entry, options.large)) for entry in missing}
        prepare(sizes - {(0, 0, 0)}, Path(prepared))
        runs = Run(options, prepared)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            futures = {pool.submit(runs.outcome, entry): entry for entry in missing}
            for future in concurrent.futures.as_completed(futures):
                entry = futures[future]
                found = future.result()
                kernels[entry["name"]] = {**{k: entry[k] for k in HEAD}, **found}
                print(f"{found['outcome']:18}{entry['name']}: {found['detail']}"[:160])
                sys.stdout.flush()
                write()
    write()
    code = summary(kernels.values(), runs.broken)
    machine(options.platform)  # Which ends the script if the last ones broke it.
    return code


def summary(kernels, broken):
    """Prints how many mutants had which outcome; returns the exit code."""
    for outcome in (HANG, ERROR, WRONG, VARYING, LUCKY, NOT_RUN):
        number = sum(k["outcome"] == outcome for k in kernels if k["kind"])
        print(f"{number:4} {outcome}")
    bad = [k["name"] for k in kernels if not k["kind"] and k["outcome"] != RIGHT]
    print(f"kernels without a fault that are not right: {', '.join(bad) or 'none'}")
    if broken:
        print(f"the GPU failed: {broken}")
    return 1 if broken or bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="render the mutants; needs no GPU")
    running = commands.add_parser("run", help="run them")
    for command in (packing, running):
        command.add_argument("directory", type=Path)
    running.add_argument("--out", type=Path, default=Path("mutants_gpu.json"))
    running.add_argument("--earlier", type=Path, help="results that are kept")
    running.add_argument("--match", default="", help="only names that contain this")
    running.add_argument("--platform", choices=("cuda", "cpu"), default="cuda")
    running.add_argument("--jobs", type=int, default=12, help="processes at a time")
    running.add_argument("--runs", type=int, default=10, help="runs of each kernel")
    running.add_argument(
        "--large", type=int, default=4096, help="the large size; 0 for none"
    )
    running.add_argument("--limit", type=float, default=20.0, help="seconds of a hang")
    running.add_argument("--budget", type=float, default=480.0, help="seconds in all")
    options = parser.parse_args()
    if options.command == "pack":
        pack(options.directory)
        return 0
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
