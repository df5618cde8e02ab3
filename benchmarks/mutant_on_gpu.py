"""Runs one kernel with a planted fault and says what happens, step by step.

Started by `mutants_gpu.py`, which knows what a process that hangs or dies means. Reads
a job as JSON from stdin and writes one JSON object per line to what was its stdout:

    {"event": "ready"}                                    the device computes
    {"event": "compiling", "size": [m, n, k]}
    {"event": "running", "size": [m, n, k], "inputs": "small integers"}
    {"event": "result", "size": ..., "wrong": 0, "of": 24576, "differing_runs": 0, ...}
    {"event": "error", "text": "ValueError: ..."}
    {"event": "done"}

Needs jax, numpy and kgen.verify, which needs nothing else here.
"""

import contextlib
import importlib.util
import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIELDS = {
    "request": str,
    "directory": str,
    "platform": str,
    "prepared": str,
    "runs": int,
    "large": list,
}
WRONG = re.compile(r"(\d+) of \d+ elements are wrong")
sys.path.insert(0, str(ROOT))


class Events:
    """Sends events to what was stdout; what anything else prints goes to stderr."""

    def __init__(self):
        self._file = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def send(self, event, **fields):
        self._file.write(json.dumps({"event": event, **fields}) + "\n")
        self._file.flush()


def read_job():
    """Returns the job on stdin and its request; ends with a message if it is none."""
    from kgen.verify.request import Request

    try:
        job = json.loads(sys.stdin.read())
        if not isinstance(job, dict):
            raise ValueError(f"expected an object, got {type(job).__name__}")
        for name, kind in FIELDS.items():
            if type(job.get(name)) is not kind:
                article = "an" if kind is int else "a"
                found = f"{name} is {job.get(name)!r}"
                raise ValueError(f"{found}, not {article} {kind.__name__}")
        if [type(size) for size in job["large"]] != [int] * 3:
            raise ValueError(f"large is {job['large']}, not three sizes")
        if job["runs"] < 1:
            raise ValueError(f"runs is {job['runs']}, not 1 or more")
        if not Path(job["directory"]).is_dir():
            raise ValueError(f"there is no directory {job['directory']}")
        return job, Request.from_json(job["request"])
    except (RecursionError, ValueError) as error:
        sys.exit(f"stdin is no job: {error}")


def device_of(platform):
    """Returns a device that computes; ends with a message if there is none."""
    import jax
    import jax.numpy as jnp

    try:
        device = jax.devices(platform)[0]
    except RuntimeError as error:
        sys.exit(f"no {platform} device: {' '.join(str(error).split())}")
    jnp.ones(1024).sum().block_until_ready()
    return device


def load(request, directory):
    """Imports the module of a request and returns its function."""
    path = Path(directory, f"{request.name}.py")
    path.write_text(request.source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(request.name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[request.name] = module
    spec.loader.exec_module(module)
    return getattr(module, request.function)


def interpreting(platform):
    """Has kernels interpreted that are traced in the block, if there is no GPU."""
    if platform == "cuda":
        return contextlib.nullcontext()
    from jax.experimental.pallas import mosaic_gpu as plgpu

    from kgen.verify import upstream

    return upstream.interpreted(plgpu.InterpretGPUParams(uninitialized_memory="nan"))


def small(request, case, kind):
    """Returns operands, and what counts the wrong elements of the outputs."""
    from kgen.verify import numerics
    from kgen.verify.explain import LevelError

    inputs, reference = numerics.draw(request, case, kind)

    def count(outputs):
        result = outputs[0] if len(outputs) == 1 else tuple(outputs)
        try:
            numerics.check(result, reference, request, kind, on_gpu=True)
        except LevelError as error:
            if (told := WRONG.search(str(error))) is None:
                raise
            return int(told[1])
        return 0

    return inputs, count


def large(request, case, directory):
    """Returns the same of a product for which the result was prepared."""
    import numpy as np

    from kgen.layouts import logical, stored
    from kgen.verify.floats import FORMATS

    a, b, product = (
        np.load(Path(directory, f"{case.m}x{case.n}x{case.k}.{part}.npy"))
        for part in ("a", "b", "product")
    )
    # What is passed is the logical operand's other view, and C's, too.
    a, b = map(np.ascontiguousarray, logical(request.layout, a, b))
    product = stored(request.out_order, product)
    operands = [array.astype(np.dtype(request.operand_dtype)) for array in (a, b)]
    expected = FORMATS[request.out_dtype].round(product.astype(np.float64))

    def count(outputs):
        (result,) = outputs
        if result.shape != expected.shape:
            raise ValueError(f"returns shape {result.shape}, expected {expected.shape}")
        return int((result.astype(np.float64) != expected).sum())

    return operands, count


def is_plain(request):
    """Returns whether nothing but a product is computed, in sums that are exact."""
    float8 = request.summed_dtype.startswith("float8")
    more = request.steps or request.scale_block or request.promoted or float8
    return request.op == "matmul" and not more


def judge(first, difference, count):
    """Counts wrong elements of the first run, and runs that differ from it."""
    import numpy as np

    outputs = [np.asarray(each) for each in first]
    nans = [int(np.isnan(each.astype(np.float64)).sum()) for each in outputs]
    return {
        "wrong": count(outputs),
        "unwritten": sum(nans),
        "of": sum(each.size for each in outputs),
        "differing_runs": difference.differing if difference else 0,
        "differing_elements": difference.elements if difference else 0,
    }


def run(job, request, events):
    """Runs the kernel at the sizes of its request and at a large one."""
    import jax

    from kgen.verify.lower import called, operands
    from kgen.verify.reference import INTEGERS, KINDS
    from kgen.verify.repeats import Poisoned, repeat
    from kgen.verify.request import RequestCase

    function = load(request, job["directory"])
    plan = [
        (case, kind, lambda case=case, kind=kind: small(request, case, kind))
        for case in request.cases
        for kind in KINDS
    ]
    m, n, k = job["large"]
    if m and is_plain(request):
        case = RequestCase(m=m, n=n, k=k)
        prepared = job["prepared"]
        plan.append((case, INTEGERS, lambda: large(request, case, prepared)))
    kernel, compiled_for = None, None
    for case, kind, draw in plan:
        size = [case.m, case.n, case.k]
        if compiled_for != size:
            events.send("compiling", size=size)
            with interpreting(job["platform"]):
                kernel = Poisoned(called(function, case), operands(request, case))
            compiled_for = size
        inputs, count = draw()
        on_device = [jax.device_put(array) for array in inputs]
        events.send("running", size=size, inputs=kind)
        found = judge(*repeat(kernel, on_device, job["runs"]), count)
        events.send("result", size=size, inputs=kind, **found)


def main():
    events = Events()
    job, request = read_job()
    events.send("ready", device=device_of(job["platform"]).device_kind)
    from kgen.verify.explain import explain

    try:
        run(job, request, events)
    except Exception as error:
        text = explain(error, Path(job["directory"], f"{request.name}.py"))
        events.send("error", text=text.strip().splitlines()[0])
    events.send("done")
    # A device in an unknown state may hold up the end.
    os._exit(0)


if __name__ == "__main__":
    main()
