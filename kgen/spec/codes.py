"""Rules about the text of a spec, applied by the loader."""

from kgen.rules import Rule, register

_TOML = "TOML 1.0, https://toml.io/en/v1.0.0"
_MODEL = "kgen.spec.model; `kgen schema` prints it"

INVALID_TOML = register(
    Rule(
        code="KG001",
        title="A spec is valid TOML",
        reason="A file that TOML cannot read says nothing. The place is where reading"
        " stopped, which may be after the fault: an open quote is noticed at the end of"
        " its line.",
        source=_TOML,
        bad="[dtypes]\na = float16",
        good='[dtypes]\na = "float16"',
    )
)

TEXT_FILE = register(
    Rule(
        code="KG002",
        title="A spec is a UTF-8 file of at most 1 MiB with a printable name",
        reason="TOML is UTF-8 by definition. A byte order mark and CRLF line ends are"
        " accepted and change nothing. The file's name is told in the comments of the"
        " generated module, where a line break in it would end the comment. The"
        " examples are one text, saved as Latin-1 and as UTF-8.",
        source=f"{_TOML}, Spec",
        bad='[kernel]\nname = "gemm"\nop = "matmul"\ndoc = "f\xfcr Hopper"',
        good='[kernel]\nname = "gemm"\nop = "matmul"\ndoc = "f\xfcr Hopper"',
    )
)

UNKNOWN_KEY = register(
    Rule(
        code="KG003",
        title="Every table and key is one that kgen knows",
        reason="A misspelt key that is ignored leaves the default in force, and the"
        " kernel is another one than its author believes.",
        source=_MODEL,
        bad="[schedule]\nwarp_specialised = true",
        good="[schedule]\nwarp_specialized = true",
    )
)

WRONG_TYPE = register(
    Rule(
        code="KG004",
        title="A value has the type of its key",
        reason="Nothing is converted: true is no integer, nor is 128.0, and a number in"
        " quotes is a string.",
        source=_MODEL,
        bad="[tile]\nm = 128.0",
        good="[tile]\nm = 128",
    )
)

BAD_VALUE = register(
    Rule(
        code="KG005",
        title="A value is one that its key allows",
        reason="Names of dtypes, operations and options are written in one way, sizes"
        " are bounded so that arithmetic on them stays meaningful, and arrays have the"
        " length of what they describe.",
        source=_MODEL,
        bad='[dtypes]\na = "bf16"',
        good='[dtypes]\na = "bfloat16"',
    )
)

MISSING_KEY = register(
    Rule(
        code="KG006",
        title="kernel.name and kernel.op are given",
        reason="Every other key has a default that is a good kernel; these two have"
        " none.",
        source=_MODEL,
        bad='[kernel]\nname = "gemm"',
        good='[kernel]\nname = "gemm"\nop = "matmul"',
    )
)

NAME = register(
    Rule(
        code="KG007",
        title="kernel.name is an identifier that nothing else is called by",
        reason="It becomes the name of a module and of its test. A keyword cannot be"
        " imported; a module called numpy.py hides the real one from everything on the"
        " same path; pytest collects files such as test_gemm.py; Windows has no files"
        " called con or nul.",
        source="The Python Language Reference, Identifiers and Keywords; pytest,"
        " python_files; Microsoft, Naming Files, Paths, and Namespaces",
        bad='[kernel]\nname = "fp16-128x128"\nop = "matmul"',
        good='[kernel]\nname = "fp16_128x128"\nop = "matmul"',
    )
)

SAME_NAME = register(
    Rule(
        code="KG008",
        title="No two specs share a name, whatever its case",
        reason="Each name makes one file, and the second would replace the first; on"
        " macOS and Windows so do names that differ only by case. It holds for the"
        " variants of a [matrix] and for all files of one call.",
        source="kgen",
        bad='[kernel]\nname = "gemm"\nop = "matmul"\n\n[matrix]\ntile.n = [64, 128]',
        good='[kernel]\nname = "gemm_n{tile.n}"\nop = "matmul"\n\n[matrix]\n'
        "tile.n = [64, 128]",
    )
)

MATRIX = register(
    Rule(
        code="KG009",
        title="[matrix] gives arrays of distinct values for keys set nowhere else",
        reason="Every combination of its values is one spec, at most 256 of them. An"
        " empty array would leave none, a repeated value would make one spec twice, and"
        " a key that is set elsewhere too would be overruled in silence.",
        source="kgen",
        bad='[kernel]\nname = "gemm_n{tile.n}"\nop = "matmul"\n\n[matrix]\n'
        "tile.n = 64",
        good='[kernel]\nname = "gemm_n{tile.n}"\nop = "matmul"\n\n[matrix]\n'
        "tile.n = [64, 128]",
    )
)

FORMAT_OF_SPEC = register(
    Rule(
        code="KG011",
        title="A spec is of a format that this kgen reads",
        reason="What a key is called, or means, may change from one format to the next."
        " A spec of an older format is rewritten by kgen migrate; one of a newer format"
        " needs a newer kgen.",
        source="kgen",
        bad='format = 2\n\n[kernel]\nname = "gemm"\nop = "matmul"',
        good='format = 1\n\n[kernel]\nname = "gemm"\nop = "matmul"',
    )
)

PLACEHOLDER = register(
    Rule(
        code="KG010",
        title="A placeholder names a key that [matrix] sets",
        reason="In kernel.name, {tile.n} stands for the value of tile.n in the variant"
        " at hand. A key that does not vary has no place there, and an array does not"
        " fit into a name. In kernel.doc, braces around anything that is no dotted key"
        " are text, and so are doubled braces.",
        source="kgen",
        bad='[kernel]\nname = "gemm_n{tiles.n}"\nop = "matmul"\n\n[matrix]\n'
        "tile.n = [64, 128]",
        good='[kernel]\nname = "gemm_n{tile.n}"\nop = "matmul"\n\n[matrix]\n'
        "tile.n = [64, 128]",
    )
)

TUNE = register(
    Rule(
        code="KG012",
        title="[tune] gives arrays of distinct values for keys of the schedule",
        reason="Every combination of its values is tried by kgen tune, where it is legal."
        " What is computed, in which dtypes, and how it is proven, is no matter of speed:"
        " such keys are not tuned.",
        source="kgen",
        bad='[tune]\ndtypes.a = ["float16", "bfloat16"]',
        good="[tune]\ntile.n = [64, 128, 256]",
    )
)
