"""Directories of specs with a dispatch module, for tests."""

from pathlib import Path

# Kernels that are verified within seconds.
KERNELS = {
    "gemm": "[tile]\nm = 128\nn = 64\n",
    "skinny": "[tile]\nm = 64\nn = 64\n[pipeline]\nmax_concurrent_steps = 3\n",
    "gemm_fp16": '[dtypes]\na = "float16"\nb = "float16"\n[tile]\nm = 64\nn = 64\n',
}
BUCKETS = {"gemm": [[4096, 8192, 4096], [1024, 512, 512]], "skinny": [[64, 8192, 8192]]}
HEAD = '[kernel]\nname = "{name}"\nop = "{op}"\n\n'


def write_kernels(directory: Path, **more: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, tables in (KERNELS | more).items():
        text = HEAD.format(name=name, op="matmul") + tables
        (directory / f"{name}.toml").write_text(text, "utf-8")


def write_dispatch(
    directory: Path, buckets: dict[str, list[list[int]]] = BUCKETS, name: str = "pick"
) -> Path:
    """Writes the kernels' specs and that of the module; returns the latter."""
    write_kernels(directory)
    tables = [
        f'[[bucket]]\nkernel = "{kernel}"\nshapes = {shapes}\n'
        for kernel, shapes in buckets.items()
    ]
    path = directory / f"{name}.toml"
    text = HEAD.format(name=name, op="dispatch") + "\n".join(tables)
    path.write_text(text, "utf-8")
    return path
