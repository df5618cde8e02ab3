"""Tells in the benchmarks' page how fast kgen itself is: see report.py."""

from result_files import table

UNITS = {"s": "s", "mb": "MB"}


def speed(result):
    machine, limits = result["machine"], result["limits"]
    rows = []
    for name, value in result["figures"].items():
        what, _, unit = name.rpartition("_")
        unit = UNITS[unit]
        told = (value["median"], value["best"], limits[name])
        rows.append((what.replace("_", " "), *(f"{figure} {unit}" for figure in told)))
    return f"""## kgen itself

`speed.py` measured on {machine["cores"]} cores ({machine["processor"]}), Python
{machine["python"]}, JAX {machine["jax"]}, black {machine["black"]}, with a load of
{result["load_before"]:.1f} before it began; [results/speed.json](results/speed.json). The
machine is a virtual one whose speed changes by half within minutes: the best is what kgen
takes when it gets its cores.

{table(("what", "median", "best", "limit"), rows)}
"""
