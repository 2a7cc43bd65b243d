"""Which compiled code runs on which target: NVIDIA's rules, nothing else.

* plain cubin (``sm_80``): its own major version, at its own minor version or a higher one;
* architecture-specific (``sm_90a``): exactly that capability, as cubin and as PTX;
* family-specific (``sm_100f``): the same family, at that capability or a higher one, as cubin and as PTX;
* plain PTX (``compute_90``): that capability and every later one, compiled by the driver.

Sources: CUDA Programming Guide, "Compute Capabilities" (feature-set compiler targets); Blackwell
Compatibility Guide; PTX ISA, ``.target`` directive (families of ``f`` targets).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from auditor.arch.targets import Target
from auditor.errors import UserError

_ARCH = re.compile(r"(?:sm_?|compute_?)?(?:(\d{1,3})\.(\d)|(\d{1,3})(\d))([af]?)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True)
class CompiledFor:
    """What a piece of code was compiled for: capability and the suffix ``""``, ``"a"`` or ``"f"``."""

    capability: tuple[int, int]
    suffix: str = ""

    @property
    def text(self) -> str:
        return f"sm_{self.capability[0]}{self.capability[1]}{self.suffix}"


def parse_arch(text: str) -> CompiledFor:
    """Reads ``90a``, ``sm_90a``, ``compute_100f``, ``12.0a``. UserError E002 for anything else.

    The last digit is the minor version, so ``sm_103`` is 10.3.
    """
    match = _ARCH.fullmatch(text.strip())
    if match is None:
        raise UserError("E002", f"no CUDA architecture: {text!r}", hints=["write it as sm_120a or 12.0a"])
    major, minor = (match[1], match[2]) if match[1] is not None else (match[3], match[4])
    return CompiledFor((int(major), int(minor)), match[5].lower())


def cubin_runs_on(arch: str | CompiledFor, target: Target) -> bool:
    """Whether a cubin compiled for ``arch`` loads on ``target``."""
    built = parse_arch(arch) if isinstance(arch, str) else arch
    if built.suffix == "a":
        return built.capability == target.capability
    # A family has one major version (10.x, 11.x, 12.x), so an "f" cubin reaches as far as a plain one.
    return built.capability[0] == target.major and built.capability[1] <= target.minor


def ptx_runs_on(arch: str | CompiledFor, target: Target) -> bool:
    """Whether PTX for ``arch`` can be compiled by the driver for ``target``."""
    built = parse_arch(arch) if isinstance(arch, str) else arch
    if built.suffix:
        return cubin_runs_on(built, target)
    return built.capability <= target.capability


def may_use(arch: str | CompiledFor, target: Target, feature: str) -> bool:
    """Whether code compiled for ``arch`` may use a feature of ``target`` and runs there.

    Features marked ``a`` or ``f`` in the data cannot be written in code for a plain target: a kernel built
    for ``sm_120`` has no block-scaled MMA although the card has it. KeyError for an unknown feature.
    """
    built = parse_arch(arch) if isinstance(arch, str) else arch
    fact = target.features[feature]
    if not fact.value or not cubin_runs_on(built, target):
        return False
    if fact.suffix == "a":
        return built.suffix == "a"
    return built.suffix in ("a", "f") if fact.suffix == "f" else True


def family(target: Target) -> str:
    """The family whose ``f`` code is shared: ``"10.x"``, ``"12.x"``."""
    return f"{target.major}.x"
