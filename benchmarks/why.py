"""Tells in the benchmarks' page what limits kernels, and what was tried: see report.py."""

import textwrap

from result_files import AS_COMMITTED, ROOT, is_committed, marked, table

WHY = """## What limits the fastest kernels

`counters.py` ran kernels and XLA's over and over for a second, while `nvidia-smi` told
clock and power, and once under Nsight Compute; [results/{name}](results/{name}). The code
of {same} of {all} of the kernels is the one that is committed; the others were counted in
an earlier one. At such sizes the card draws about as much power as its data sheet allows,
700 W, and lowers its clock, so that what counts is energy: a kernel that keeps the tensor
cores busier runs at a lower clock. "Busy" is the share of all cycles in which tensor cores
work.

{table}
{not_counted}
"""

TRIED = """## What was tried

Variants of specs in turns with each other and XLA, on one {device}; XLA's time over the
variant's. Of each group the fastest three are here, what the spec was, and XLA;
[results/{name}](results/{name}) has all. {note}

{groups}
"""

MISSED = """## What is missed, and why

* **8-bit floats at 4096 x 8192 x 4096.** By its name, XLA's kernel cuts C into 168 x 128,
  in clusters of two. The kernel here has tiles of 128 x 200 that warpgroups take in turns.
  Padding the column scales to a whole tile took a kernel of its own, half of what was
  missing or more; read by eights, they need none. What is left is the way from L2
  into SMEM: if every CTA loads the first tiles over and over, it is faster than XLA's.
  Scales by TMA, prefetching B into L2, even if each CTA prefetches only its share, other
  bands, clusters, loads in halves and two wgmma in flight are slower. *Next:* the two
  slots for stores shared by both warpgroups, in turns, win a part of what is missing: the
  last tile of a CTA, whose store nothing hides, is then stored sooner.
* **4096 x 4000 x 4096.** Rows of 4000 elements are no multiple of the 64 that a swizzle of
  128 bytes takes, so JAX's tilings only allow one of 64 bytes, whose boxes have rows half
  as long; padding B takes longer than is won. XLA's kernel takes fewer cycles for as many
  bytes. A cluster that shares B, and bands of 8 along n, are the best of what was tried; a
  ring of its own with a wgmma in flight is as fast, also if one warpgroup is a step ahead
  of the other; A from registers and swapped operands are slower, and ping-pong much
  slower. *Next:* `plgpu.im2col_ref` of JAX 0.12, in which TMA clips columns
  that a tile spans, with swapped operands.

What made the gated linear unit faster than XLA's joined product and gate together: tiles
of 152 x 128 with swapped operands, which fill the rounds of 132 SMs; the products with
the gate's weights first in the last two steps, so that the activation is computed while
the tensor cores work; and the ring first in SMEM. Without swapped operands the second
wins nothing, and the third nothing for the three other kernels that were tried.

Where a CTA lies matters as much as its tile: in most other orders than the one in which
CTAs are launched the same kernels are some percent slower, and so are clusters of two that
share nothing. Clusters that share an operand win a part of that back, and more of it if
those of a GPC follow each other, but not all.

"""

FASTEST = 3
ERROR = "==ERROR=="

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
            if label not in steady:
                continue  # Why nothing was counted, which `not_counted` tells.
            at = steady[label]
            for kernel in kernels:
                name = kernel["kernel"]
                if label == "kernel":
                    name = marked(pair["name"], pair["name"], pair)
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


def not_counted(pairs):
    """Tells of kernels of which nothing was counted, and why."""
    told = [
        f"* {pair['name']} at {size_of(pair['shape'])} was not counted: {reason(pair)}\n"
        for pair in pairs
        if "error" in pair["counters"]
    ]
    return "\n" + "".join(told) if told else ""


def reason(pair):
    """Returns the first line in which the profiler says what went wrong."""
    found = pair["counters"]
    said = f"{found.get('ncu', '')}\n{found['error']}".splitlines()
    lines = [line.removeprefix(ERROR).strip() for line in said if ERROR in line]
    return next((line for line in lines if "failed" in line), "it did not end in time")


def counters(result, name):
    """Returns the section on what limits kernels."""
    pairs = result["pairs"]
    head = ("m x n x k", "kernel", *COUNTER, "steady MHz", "watts")
    told = {
        "name": name,
        "same": sum(is_committed(p["name"], p) == AS_COMMITTED for p in pairs),
        "all": len(pairs),
        "not_counted": not_counted(pairs),
    }
    return WHY.format(table=table(head, counter_rows(pairs)), **told)


def variants(result, name):
    """Returns the section on what was tried."""
    groups = []
    for group in result["groups"]:
        title = f"{link(group['spec'])} at {size_of(group['shape'])}"
        head = ("variant", "us", "XLA / it")
        groups.append(f"{title}:\n\n{table(head, variant_rows(group))}\n")
    device = result["machine"]["device"]
    note = textwrap.fill(result.get("note", ""), 90)
    told = {"device": device, "name": name, "note": note}
    return TRIED.format(groups="\n".join(groups), **told)


def link(spec):
    """Returns a link to a spec; its name alone if it is no longer there."""
    name = spec.rpartition("/")[2]
    return f"[{name}](../{spec})" if (ROOT / spec).exists() else name


def variant_rows(group):
    """Yields the fastest variants, the spec as it is, and XLA; then what did not run."""
    times = sorted(group["times"].items(), key=lambda each: each[1]["us"])
    fastest = [name for name, _ in times[:FASTEST]]
    for name, of in times:
        if name in fastest or name.startswith(("XLA", "as it")):
            ratio = of["xla_over_it"]
            yield name, f"{of['us']:.1f}", "" if ratio is None else f"{ratio:.3f}"
    for name, reason in group["others"].items():
        yield name, reason.splitlines()[0], ""


def timeline(found, name):
    """Tells what the warpgroups of a kernel did when."""
    size = " x ".join(map(str, found["shape"]))
    rows = [
        (
            row["warpgroup"],
            row["scope"],
            row["turn"],
            *(f"{row[key]:.2f}" for key in ("begins", "takes", "latest_end")),
        )
        for row in found["rows"]
    ]
    head = ("warpgroup", "what", "turn", "begins", "takes", "latest end")
    return f"""## Where the time of {size} goes

`timeline.py` ran {found["kernel"]} once on one {found["device"]} under Mosaic GPU's
profiler, in {found["unit"]}: medians over the CTAs, and the latest of all. The tensor cores
need {found["tile_cycles"]} for one tile; [results/{name}](results/{name}). The code is
{is_committed(found["kernel"], found)}.

{table(head, rows)}

"""
