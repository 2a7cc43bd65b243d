"""Which backend moves the KV cache between prefill and decode on a GPU of family 12.x without InfiniBand.

Mooncake, the default, is made for RDMA. Workstations and GB10 boxes have none as a rule; NIXL moves the cache
over what there is (UCX). Who wants Mooncake over TCP says so with `mooncake_tcp`.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from typing import Any

logger = logging.getLogger(__name__)

#: Where Linux lists RDMA devices: InfiniBand, RoCE, EFA.
RDMA_DEVICES = "/sys/class/infiniband"
#: Settings by which somebody has chosen how Mooncake is to move data.
CHOSEN_BY = ("MC_FORCE_TCP", "MOONCAKE_PROTOCOL", "SGLANG_MOONCAKE_CUSTOM_MEM_POOL")
#: Arguments that SGLang only supports with Mooncake.
NEEDS_MOONCAKE = ("enable_dsa_cache_layer_split", "enable_unified_memory")


def transfer_backend_for(args: Any) -> str | None:
    """The backend to take instead of the default, or None where it stays as it is.

    Args:
        args: the server arguments, or a view of them.

    Raises:
        ValueError: there is no InfiniBand, and neither NIXL nor Mooncake can be imported.
    """
    if args.disaggregation_mode not in ("prefill", "decode"):
        return None
    if args.disaggregation_transfer_backend != "mooncake" or args.disaggregation_ib_device is not None:
        return None
    if any(name in os.environ for name in CHOSEN_BY):
        return None
    if any(getattr(args, name, False) for name in NEEDS_MOONCAKE):
        return None
    if str(getattr(args, "speculative_algorithm", "")).upper() == "DSPARK":
        return None
    if not _is_family_12() or _has_rdma():
        return None
    if _importable("nixl"):
        logger.info(
            "No InfiniBand device on this machine: the KV cache is moved by NIXL instead of Mooncake. "
            "For Mooncake over TCP pass --disaggregation-transfer-backend mooncake_tcp."
        )
        return "nixl"
    if _importable("mooncake"):
        logger.warning(
            "No InfiniBand device on this machine, and NIXL is not installed: Mooncake has no RDMA to use. "
            "pip install nixl, or pass --disaggregation-transfer-backend mooncake_tcp."
        )
        return None
    raise ValueError(
        "No InfiniBand device on this machine, and neither NIXL nor Mooncake can be imported: nothing moves "
        "the KV cache between prefill and decode. pip install nixl and start again; or install "
        "mooncake-transfer-engine and pass --disaggregation-transfer-backend mooncake_tcp."
    )


def _is_family_12() -> bool:
    from sglang.srt.utils.common import is_sm120_supported

    return is_sm120_supported()


def _has_rdma() -> bool:
    try:
        return bool(os.listdir(RDMA_DEVICES))
    except OSError:
        return False


def _importable(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
