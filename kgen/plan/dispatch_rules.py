"""KG9xx: what makes the table of a dispatch module legal."""

from kgen.rules import Rule, register

_HEAD = '[kernel]\nname = "matmul_h200"\nop = "dispatch"\n\n'

UNKNOWN = register(
    Rule(
        code="KG901",
        title="bucket.kernel names a matmul whose spec lies beside this one",
        reason="The module imports the kernels that it picks from, and what they can do"
        " is read from their specs. What is not there, is not legal or is no matmul"
        " cannot be picked.",
        source="kgen",
        bad=_HEAD + '[[bucket]]\nkernel = "gem"\nshapes = [[4096, 8192, 4096]]',
        good=_HEAD + '[[bucket]]\nkernel = "gemm"\nshapes = [[4096, 8192, 4096]]',
    )
)

UNLIKE = register(
    Rule(
        code="KG902",
        title="The kernels of a dispatch module take and return the same",
        reason="What the module takes must not depend on the size: all kernels have the"
        " same dtypes, layout and architecture.",
        source="kgen",
        bad=_HEAD + '[[bucket]]\nkernel = "gemm"\nshapes = [[4096, 8192, 4096]]\n\n'
        '[[bucket]]\nkernel = "gemm_fp16"\nshapes = [[64, 8192, 8192]]',
        good=_HEAD + '[[bucket]]\nkernel = "gemm"\nshapes = [[4096, 8192, 4096]]\n\n'
        '[[bucket]]\nkernel = "skinny"\nshapes = [[64, 8192, 8192]]',
    )
)

UNABLE = register(
    Rule(
        code="KG903",
        title="A kernel can do the sizes of its bucket",
        reason="m, n and k must be multiples of the kernel's tile, times its cluster or"
        " its parts of K. The module would pick a kernel that raises.",
        source="kgen; the matmul modules refuse what their tiles do not divide",
        bad=_HEAD + '[[bucket]]\nkernel = "gemm"\nshapes = [[16, 8192, 8192]]',
        good=_HEAD + '[[bucket]]\nkernel = "gemm"\nshapes = [[128, 8192, 8192]]',
    )
)

ANY_EDGE = register(
    Rule(
        code="KG905",
        title="The kernels of a dispatch module take multiples of their tiles",
        reason="`choose` goes by the multiples that a kernel takes. One with edge ="
        ' "any" takes every size, and would be picked where it pads and others do not.',
        source="kgen",
        bad=_HEAD + '[[bucket]]\nkernel = "gemm_any"\nshapes = [[4096, 4000, 4096]]',
        good=_HEAD + '[[bucket]]\nkernel = "gemm"\nshapes = [[4096, 8192, 4096]]',
    )
)

BATCHED = register(
    Rule(
        code="KG906",
        title="The kernels of a dispatch module multiply two matrices",
        reason="`choose` goes by m, n and k. How many matrices there are would count as"
        " well, and no table says for how many a kernel was tuned.",
        source="kgen",
        bad=_HEAD + '[[bucket]]\nkernel = "gemm_batched"\nshapes = [[512, 512, 512]]',
        good=_HEAD + '[[bucket]]\nkernel = "gemm"\nshapes = [[4096, 8192, 4096]]',
    )
)

TWICE = register(
    Rule(
        code="KG904",
        title="A size is in one bucket",
        reason="The table holds one kernel for each size; a second would never be picked.",
        source="kgen",
        bad=_HEAD + '[[bucket]]\nkernel = "gemm"\nshapes = [[4096, 8192, 4096]]\n\n'
        '[[bucket]]\nkernel = "skinny"\nshapes = [[4096, 8192, 4096]]',
        good=_HEAD + '[[bucket]]\nkernel = "gemm"\nshapes = [[4096, 8192, 4096]]\n\n'
        '[[bucket]]\nkernel = "skinny"\nshapes = [[64, 8192, 8192]]',
    )
)
