"""The groups of rules, by the first digit of their codes."""

from collections.abc import Mapping

from kgen.rules import Rule

GROUPS = {
    "KG0": "The text of a spec",
    "KG1": "wgmma",
    "KG2": "SMEM layouts",
    "KG3": "TMA",
    "KG4": "SMEM, registers, threads, clusters and grids",
    "KG5": "Pipelines",
    "KG6": "Schedules, entry points and bodies",
    "KG7": "Blackwell: tcgen05 and tensor memory",
    "KG8": "Standalone tests",
    "KG9": "Dispatch modules",
}


def grouped(rules: Mapping[str, Rule]) -> list[tuple[str, list[Rule]]]:
    """Returns (title, rules) of each group that has any, in the order of the codes.

    Raises:
      LookupError: a rule belongs to no group.
    """
    members: dict[str, list[Rule]] = {prefix: [] for prefix in GROUPS}
    for code in sorted(rules):
        if code[:3] not in members:
            raise LookupError(f"{code} belongs to no group")
        members[code[:3]].append(rules[code])
    return [(GROUPS[prefix], found) for prefix, found in members.items() if found]
