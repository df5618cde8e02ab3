"""Tells in the benchmarks' page what limits kernels, and what was tried: see report.py."""

WHY = """## What limits the fastest kernels

`counters.py` ran kernels and XLA's over and over for a second, while `nvidia-smi` told
clock and power, and once under Nsight Compute; [results/{name}](results/{name}). At sizes
of this kind the card is at its limit of 700 W and lowers its clock, so that what counts
is energy: a kernel that keeps the tensor cores busier runs at a lower clock. "Busy" is the
share of all cycles in which tensor cores work.

{table}

"""

TRIED = """## What was tried

`variants.py` timed variants of specs in turns with each other and XLA, on one {device};
[results/{name}](results/{name}). Each was right first. XLA's time over the variant's:

{groups}
"""

COUNTER = {
    "us": ("gpu__time_duration.sum", 1e-3, ".1f"),
    "thousand cycles": ("sm__cycles_elapsed.max", 1e-3, ".1f"),
    "busy": (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        1,
        ".1f",
    ),
    "L2, GB": ("lts__t_bytes.sum", 1e-9, ".2f"),
    "memory, GB": ("dram__bytes.sum", 1e-9, ".2f"),
}


def size_of(shape):
    *batch, m, n, k = shape
    text = f"{m} x {n} x {k}"
    return f"{batch[0]} x ({text})" if batch else text


def counter_rows(pairs):
    """Yields a row for every kernel that ran, of ours and XLA's."""
    for pair in pairs:
        steady = pair["steady"]
        for label, kernels in pair["counters"].items():
            if label == "error" or label not in steady:
                continue
            at = steady[label]
            for kernel in kernels:
                name = pair["name"] if label == "kernel" else kernel["kernel"]
                yield (
                    size_of(pair["shape"]),
                    name,
                    *(
                        format(kernel[key] * unit, form)
                        for key, unit, form in COUNTER.values()
                    ),
                    at["mhz"],
                    at["watts"],
                )


def counters(result, name, table):
    """Returns the section on what limits kernels."""
    head = ("m x n x k", "kernel", *COUNTER, "steady MHz", "watts")
    return WHY.format(name=name, table=table(head, counter_rows(result["pairs"])))


def variants(result, name, table):
    """Returns the section on what was tried."""
    groups = []
    for group in result["groups"]:
        times = sorted(group["times"].items(), key=lambda each: each[1]["us"])
        rows = [
            (what, f"{of['us']:.1f}", f"{of['xla_over_it']:.3f}") for what, of in times
        ]
        rows += [
            (what, why.splitlines()[0], "") for what, why in group["others"].items()
        ]
        spec = group["spec"]
        title = f"[{spec.rpartition('/')[2]}](../{spec}) at {size_of(group['shape'])}"
        groups.append(f"{title}:\n\n{table(('variant', 'us', 'XLA / it'), rows)}\n")
    device = result["machine"]["device"]
    return TRIED.format(device=device, name=name, groups="\n".join(groups))
