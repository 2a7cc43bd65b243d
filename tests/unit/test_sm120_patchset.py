"""The check at start that the kernels for sm_120 are in force, in a small stand-in of the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.data import data_root

MODULE = "python/sglang/srt/layers/attention/sm120_patchset.py"
TORCH = """\
import json, os, types

SAID = json.loads(os.environ["SAID"])
Tensor = object


class Space:
    def __getattr__(self, name):
        if name not in SAID["registered"]:
            raise AttributeError(name)
        arguments = [types.SimpleNamespace(name=each) for each in SAID["registered"][name]]
        return types.SimpleNamespace(
            default=types.SimpleNamespace(_schema=types.SimpleNamespace(arguments=arguments))
        )


ops = types.SimpleNamespace(sglang=Space())
_C = types.SimpleNamespace(_dispatch_has_kernel_for_dispatch_key=lambda name, key: key in SAID["keys"])
"""
ENVIRON = """\
import os


class Flag:
    def __init__(self, name, default):
        self.name, self.default = name, default

    def get(self):
        return os.environ.get(self.name, self.default) == "1"


class envs:
    SGLANG_SM120_INDEXER_LOGITS = Flag("SGLANG_SM120_INDEXER_LOGITS", "1")
    SGLANG_SM120_SPARSE_DECODE = Flag("SGLANG_SM120_SPARSE_DECODE", "1")
    SGLANG_SM120_SPARSE_DECODE_GLUON = Flag("SGLANG_SM120_SPARSE_DECODE_GLUON", "0")
    SGLANG_SM120_PATCHSET_CHECK = Flag("SGLANG_SM120_PATCHSET_CHECK", "1")
"""
A = "sglang/srt/layers/attention"
SERVER = {
    "torch.py": TORCH,
    "sglang/srt/environ.py": ENVIRON,
    "sglang/srt/utils.py": (
        "import json, os\n\n\n"
        "def is_sm120_supported():\n    return json.loads(os.environ['SAID'])['gpu'] == 12\n"
    ),
    f"{A}/sm120_indexer_logits.py": "def sm120_indexer_logits_fake(q, k): ...\n",
    f"{A}/sm120_sparse_decode.py": "def sm120_sparse_decode_fake(q, k): ...\n",
    f"{A}/dsv4/indexer.py": (
        "def fp8_paged_mqa_logits_torch_sm120():\n"
        "    from sglang.srt.layers.attention.sm120_indexer_logits import fp8_paged_mqa_logits\n"
    ),
    f"{A}/flash_mla_sm120.py": (
        "import functools\n"
        "from sglang.srt.layers.attention import sm120_sparse_decode\n\n\n"
        "def inner():\n    return sm120_sparse_decode.decode()\n\n\n"
        "def wrapped(function):\n"
        "    @functools.wraps(function)\n"
        "    def call():\n        return function()\n"
        "    return call\n\n\n"
        "flash_mla_with_kvcache_sm120 = wrapped(inner)\n"
    ),
}
BOTH = {"sm120_indexer_logits": ["q", "k"], "sm120_sparse_decode": ["q", "k"]}


@pytest.fixture
def server(tmp_path: Path) -> Path:
    for name, text in SERVER.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    source = data_root() / "patchsets" / "sm120" / "files" / MODULE
    (tmp_path / A / "sm120_patchset.py").write_bytes(source.read_bytes())
    return tmp_path


def asked(
    server: Path, *, gpu: int = 12, registered: object = BOTH, keys: str = "CUDA Meta", **env: str
) -> str:
    """What the check gives, or what it raises."""
    code = (
        "from sglang.srt.layers.attention.sm120_patchset import assert_in_force\n"
        "try:\n    print(assert_in_force())\nexcept RuntimeError as error:\n    print(error)\n"
    )
    said = json.dumps({"gpu": gpu, "registered": registered, "keys": keys.split()})
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(server), "SAID": said, **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_in_force(server: Path) -> None:
    assert asked(server) == "['sm120_indexer_logits', 'sm120_sparse_decode']"
    assert asked(server, SGLANG_SM120_SPARSE_DECODE="0") == "['sm120_indexer_logits']"
    (server / A / "sm120_sparse_decode.py").unlink()
    (server / A / "flash_mla_sm120.py").unlink()
    assert asked(server) == "['sm120_indexer_logits']"


def test_not_asked(server: Path) -> None:
    assert asked(server, gpu=10, registered={}) == "[]"
    assert asked(server, registered={}, SGLANG_SM120_PATCHSET_CHECK="0") == "[]"


def test_what_is_wrong(server: Path) -> None:
    only = {"sm120_indexer_logits": ["q", "k"]}
    start, end = (
        "the kernels for sm_120 are not in force: ",
        ". SGLANG_SM120_PATCHSET_CHECK=0 starts without them.",
    )
    assert asked(server, registered=only) == f"{start}sm120_sparse_decode is not registered{end}"
    other = {**BOTH, "sm120_sparse_decode": ["x"]}
    assert asked(server, registered=other) == (
        f"{start}sm120_sparse_decode is registered by somebody else, with the arguments x{end}"
    )
    assert asked(server, keys="CUDA", SGLANG_SM120_SPARSE_DECODE="0") == (
        f"{start}sm120_indexer_logits has no implementation for Meta{end}"
    )
    (server / A / "dsv4" / "indexer.py").write_text("def fp8_paged_mqa_logits_torch_sm120(): ...\n")
    site = "sglang.srt.layers.attention.dsv4.indexer:fp8_paged_mqa_logits_torch_sm120"
    assert asked(server) == f"{start}{site} does not lead to sm120_indexer_logits{end}"
    (server / A / "dsv4" / "indexer.py").write_text("")
    assert asked(server) == f"{start}none of {site} is there{end}"


def test_a_variant_that_is_switched_on_is_asked_for_too(server: Path) -> None:
    on = {"SGLANG_SM120_SPARSE_DECODE_GLUON": "1"}
    assert "gluon" not in asked(server, **on)  # no such file in this copy
    (server / A / "sm120_sparse_decode_gluon.py").write_text("def sm120_sparse_decode_gluon_fake(q): ...\n")
    assert asked(server) == "['sm120_indexer_logits', 'sm120_sparse_decode']"
    wrong = asked(server, **on)
    assert "sm120_sparse_decode_gluon is not registered" in wrong
    site = "sglang.srt.layers.attention.flash_mla_sm120:flash_mla_with_kvcache_sm120"
    assert f"{site} does not lead to sm120_sparse_decode_gluon" in wrong


def test_a_server_of_another_model_starts_without_what_its_models_never_import(server: Path) -> None:
    """The check runs for every model: what the modules of DeepSeek-V4 import may be missing there."""
    (server / A / "dsv4" / "indexer.py").write_text("import package_that_is_not_there\n")
    assert asked(server) == "['sm120_sparse_decode']"
    assert asked(server, registered={}).startswith(
        "the kernels for sm_120 are not in force: sm120_sparse_dec"
    )
