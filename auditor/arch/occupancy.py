"""How many blocks of a kernel an SM holds at once, from registers, warps and shared memory.

Source: CUDA Programming Guide, "Multiprocessor Level" and ``cuda_occupancy.h`` of the toolkit: registers are
given out per warp in units of 256, to warps in fours; shared memory in units of 128 bytes, with 1 KiB more
for each block.
"""

from __future__ import annotations

from dataclasses import dataclass

from auditor.arch.targets import Target

_REGISTER_UNIT = 256
_WARP_UNIT = 4
_SHARED_UNIT = 128


@dataclass(frozen=True)
class Occupancy:
    """Blocks on one SM, and what there is no more of: registers, shared memory, warps or blocks."""

    blocks: int
    limit: str


def blocks_per_sm(target: Target, *, threads: int, registers: int, shared: int) -> Occupancy:
    """Blocks of ``threads`` threads on one SM; ``registers`` a thread, ``shared`` bytes a block in all.

    0 where one block alone is too much.
    """
    warps = -(-threads // target.limit("warp_size"))
    a_warp = _up(max(registers, 1) * target.limit("warp_size"), _REGISTER_UNIT)
    fit = target.limit("regs_per_sm") // a_warp // _WARP_UNIT * _WARP_UNIT
    memory = _up(shared + target.limit("smem_reserved_per_block"), _SHARED_UNIT)
    each = {
        "registers": fit // warps if a_warp * warps <= target.limit("regs_per_block") else 0,
        "shared memory": target.smem_per_sm // memory if shared <= target.smem_per_block else 0,
        "warps": target.limit("warps_per_sm") // warps if threads <= target.limit("threads_per_block") else 0,
        "blocks": target.limit("blocks_per_sm"),
    }
    least = min(each.values())
    return Occupancy(least, next(name for name, blocks in each.items() if blocks == least))


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
