"""The grids of a declared kernel, from its formulas; and whether all that was declared holds."""

from __future__ import annotations

from itertools import product

from auditor.arch import Target
from auditor.errors import UserError
from auditor.patching.kernels.declared import Config, Declared, Files, read_declaration
from auditor.patching.kernels.formula import Wrong, value_of
from auditor.patching.kernels.report import Launched
from auditor.patching.sets.patchset import Patchset


def launches_of(declared: Declared, config: Config, target: Target) -> tuple[Launched, ...]:
    """The declared shapes that this configuration is launched for. UserError P090 for a wrong formula."""
    launch = declared.kernel.launch
    known = {**config.constants, **config.values, "SMS": target.sms}
    out = []
    for number, shape in enumerate(launch.shapes):
        if any(name in known and known[name] != size for name, size in shape.items()):
            continue
        names: dict[str, object] = {**known, **shape}
        try:
            for name, formula in launch.let.items():
                names[name] = value_of(formula, names)
            blocks = 1
            for formula in launch.grid:
                blocks *= value_of(formula, names)
            tiles = value_of(launch.tiles, names)
            step = value_of(launch.step, names)
            wanted = _wanted(blocks, tiles, step, target)
        except Wrong as error:
            raise declared.error(str(error), "launch", "shapes", number) from None
        out.append(Launched(shape, blocks, wanted))
    return tuple(out)


def _wanted(blocks: int, tiles: int, step: int, target: Target) -> int:
    """How many blocks there should be at least: never fewer than half of what the multiprocessors or the work
    allow. ``Wrong`` where a shape asks for nothing, or for steps that its grid does not take."""
    for name, size in (("grid", blocks), ("tiles", tiles), ("step", step)):
        if size < 1:
            raise Wrong(f"`{name}` comes to {size} on {target.name}, so that the shape asks for nothing")
    if blocks % step:
        raise Wrong(f"{blocks} blocks on {target.name} are no multiple of the step, {step}")
    most = min(target.sms, tiles)
    # Where one step is more than that, there is nothing to round down to: the plain rule holds.
    return most // step * step if step <= most else most


def wrong_declarations(patchset: Patchset) -> list[UserError]:
    """Every declaration that its file does not hold, and every formula without a value; empty where all is
    well or nothing is declared."""
    files = Files(patchset)
    out = []
    for patch in patchset.patches:
        for index, kernel in enumerate(patch.file.kernels if patch.file is not None else ()):
            try:
                made = read_declaration(files, patch, index, kernel)
                for config, target in product(made.configs, made.targets):
                    launches_of(made, config, target)
            except UserError as error:
                out.append(error)
    return out
