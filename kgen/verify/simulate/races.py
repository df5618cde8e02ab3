"""Says what a data race is, in terms of the kernel: where, between what, what to do."""

from collections.abc import Sequence
from pathlib import Path

from kgen.verify.simulate.accesses import (
    LOAD,
    READ,
    STORE,
    WGMMA,
    Access,
    Buffer,
    Race,
    is_whole,
)
from kgen.verify.simulate.hints import race_hint

MOST_RACES = 3
MOST_PLACES = 4
SLOT = "slot "
_READING = ("reads", "reading")
_WRITING = {
    LOAD: ("writes", "writing"),
    STORE: ("writes", "writing"),
    WGMMA: ("adds to", "adding to"),
}


def describe_races(
    races: Sequence[Race], module: Path, *, most: int = MOST_RACES
) -> str:
    """Returns the distinct races, each in a few lines, `most` of them.

    Races between the same two lines are one: told in full is the first, and where else.
    Two loads race only after whatever should have kept the second one back.
    """
    groups: dict[tuple[object, ...], list[Race]] = {}
    for race in races:
        groups.setdefault(_identity(race, module), []).append(race)
    ordered = sorted(groups.values(), key=lambda group: _between_loads(group[0]))
    found = [_describe(group, module) for group in ordered]
    more = len(found) - most
    if more > 0:
        found[most:] = [f"and {more} more data race{'' if more == 1 else 's'}"]
    return "\n".join(found)


def describe_buffer(buffer: Buffer) -> str:
    """Returns what a buffer is, such as `the ring of b (float16[4, 64, 128] in SMEM)`."""
    return f"{_name(buffer)} ({buffer.dtype}{list(buffer.shape)} in {_space(buffer)})"


def _identity(race: Race, module: Path) -> tuple[object, ...]:
    return tuple(
        (access.kind, access.agent, access.position.operation.place(module))
        for access in (race.first, race.second)
    )


def _between_loads(race: Race) -> bool:
    return race.first.agent == race.second.agent == LOAD


def _describe(races: Sequence[Race], module: Path) -> str:
    race = races[0]
    first, second = race.first, race.second
    step = ""
    if second.step is not None:
        word = "pipeline step" if race.buffer.of_pipeline else "load"
        step = f", {word} {second.step}"
    part = _part(second, race.buffer)
    apart = _thread(first) != _thread(second)
    lines = [
        f"data race on {part and f'{part} of '}{describe_buffer(race.buffer)}{step}:",
        f"  {_access(first, race, module, apart=apart, pending=True)}",
        f"  {_access(second, race, module, apart=apart, pending=False)}",
    ]
    if others := _others(races):
        lines.append(f"  and {others}")
    operands = dict.fromkeys(each.buffer.loaded_from for each in races)
    hint = race_hint(race, module, operands=" and ".join(filter(None, operands)))
    return "\n".join([*lines, f"hint: {hint}"])


def _access(
    access: Access, race: Race, module: Path, *, apart: bool, pending: bool
) -> str:
    """Describes an access; `pending` if what it began may not have ended."""
    operation = access.position.operation
    in_ring = race.buffer.of_pipeline
    details = []
    if access.step is not None and not in_ring and access.agent != LOAD:
        details.append(f"load {access.step}")
    if apart:
        details.append(access.position.who())
    text = _doing(access, in_ring=in_ring, pending=pending)
    about = f" ({', '.join(details)})" if details else ""
    return f"{operation.describe(module)}  <- {text}{about}"


def _doing(access: Access, *, in_ring: bool, pending: bool) -> str:
    """Says what an access does; the step is that of the pipeline, if there is one."""
    step = access.step
    reads = access.kind == READ
    match access.agent, access.kind:
        case "load", "write" if in_ring and step is not None:
            tile = f"step {step}'s tile"
            return f"may still be loading {tile}" if pending else f"loads {tile}"
        case "load", "write":
            who = "the load" if step is None else f"load {step}"
        case "thread", _:
            return "reads it" if reads else "writes it"
        case agent, _:
            own = f"step {step}'s" if in_ring and step is not None else "the"
            who = f"{own} {agent}"
    now, still = _READING if reads else _WRITING[access.agent]
    return f"{who} may still be {still} it" if pending else f"{who} {now} it"


def _others(races: Sequence[Race]) -> str:
    """Says where else a race is."""
    name, own = _name(races[0].buffer), _part(races[0].second, races[0].buffer)
    here = [race for race in races if _name(race.buffer) == name]
    parts = list(dict.fromkeys(_part(race.second, race.buffer) for race in here))
    parts = [part for part in parts if part and part != own]
    if parts and all(part.startswith(SLOT) for part in parts):
        word = SLOT if len(parts) == 1 else "slots "
        parts = [word + ", ".join(sorted(part.removeprefix(SLOT) for part in parts))]
    parts += dict.fromkeys(_name(race.buffer) for race in races if race not in here)
    if len(parts) > MOST_PLACES:
        parts[MOST_PLACES:] = [f"in {len(parts) - MOST_PLACES} more places"]
    return f"the same on {' and on '.join(parts)}" if parts else ""


def _part(access: Access, buffer: Buffer) -> str:
    """Returns `slot 1` or `[0:64, 64:128]`; empty for the whole buffer."""
    if access.slot is not None and is_whole(access.range[1:], buffer.shape[1:]):
        return f"{SLOT}{access.slot}"
    bounds = []
    for index, size in zip(access.range, buffer.shape, strict=False):
        if isinstance(index, int):
            bounds.append(str(index))
        elif (index.start, index.stop) == (0, size):
            bounds.append(":")
        else:
            bounds.append(f"{index.start}:{index.stop}")
    return "" if set(bounds) <= {":"} else f"[{', '.join(bounds)}]"


def _name(buffer: Buffer) -> str:
    """Returns what to call a buffer."""
    own = buffer.name
    if buffer.of_pipeline:
        return f"the ring of {buffer.loaded_from}" if buffer.loaded_from else "the ring"
    if not own:
        return "the accumulator" if buffer.space == "REGS" else "a buffer"
    loaded = f", loaded from {buffer.loaded_from}" if buffer.loaded_from else ""
    return f"{own}{loaded}"


def _space(buffer: Buffer) -> str:
    return "registers" if buffer.space == "REGS" else buffer.space


def _thread(access: Access) -> tuple[object, ...]:
    return access.position.thread, access.position.cta
