"""The grids of a declared kernel, from its formulas; and whether all that was declared holds."""

from __future__ import annotations

from auditor.arch import Target
from auditor.errors import UserError
from auditor.patching.kernels.declared import Config, Declared, Files, read_declaration
from auditor.patching.kernels.formula import Wrong, value_of
from auditor.patching.kernels.report import Launched
from auditor.patching.patchset import Patchset


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
            step = max(1, value_of(launch.step, names))
        except Wrong as error:
            raise declared.error(str(error), "launch", "shapes", number) from None
        out.append(Launched(shape, blocks, min(target.sms, tiles) // step * step))
    return tuple(out)


def wrong_declarations(patchset: Patchset) -> list[UserError]:
    """Every declaration that its file does not hold, and every formula without a value; empty where all is
    well or nothing is declared."""
    files = Files(patchset)
    out = []
    for patch in patchset.patches:
        for index, kernel in enumerate(patch.file.kernels if patch.file is not None else ()):
            try:
                made = read_declaration(files, patch, index, kernel)
                for config in made.configs:
                    launches_of(made, config, made.targets[0])
            except UserError as error:
                out.append(error)
    return out
