"""GPU targets as data with NVIDIA sources."""

from auditor.arch.compat import CompiledFor, cubin_runs_on, family, may_use, parse_arch, ptx_runs_on
from auditor.arch.occupancy import Occupancy, blocks_per_sm
from auditor.arch.targets import Fact, Target, fact_sources, load_targets, parse_targets

__all__ = [
    "CompiledFor",
    "Fact",
    "Occupancy",
    "Target",
    "blocks_per_sm",
    "cubin_runs_on",
    "fact_sources",
    "family",
    "load_targets",
    "may_use",
    "parse_arch",
    "parse_targets",
    "ptx_runs_on",
]
