"""The compiler that results hold for: another version spills and lays out otherwise."""

from __future__ import annotations

from auditor.errors import UserError
from auditor.native.triton.build import compiler_version

#: As in the extra ``kernels`` of pyproject.toml; what the release of PyTorch brings that SGLang pins.
TRITON = "3.6.0"
_INSTALL = "python -m pip install 'sglang-auditor[kernels]'"


def the_version() -> str:
    """The version of Triton that is installed, if it is the right one.

    UserError P091 (none) or P092 (another): nothing is said about kernels then.
    """
    found = compiler_version()
    if found is None:
        raise UserError(
            "P091", "compiling kernels needs the package triton, which is not installed", hints=[_INSTALL]
        )
    if found.partition("+")[0] != TRITON:
        raise UserError(
            "P092",
            f"Triton {found} is installed, results hold for {TRITON} alone: what spills or fits changes "
            "with the version",
            hints=[f"python -m pip install triton=={TRITON}"],
        )
    return found
