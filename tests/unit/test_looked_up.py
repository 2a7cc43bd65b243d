"""Names that an object answers from a table of helpers' names lead to the GPU, each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.gates.audit import AuditOptions, audit
from auditor.trees.folder import FolderTree

FILES = {
    "version.py": '__version__ = "0.5.99"\n',
    "srt/server_args.py": "class ServerArgs:\n    pass\n",
    "srt/gpu.py": (
        "import torch\n\n\ndef is_new_supported():\n"
        "    return torch.cuda.get_device_capability()[0] >= 12\n\n\n"
        "def is_mid_supported():\n    return torch.cuda.get_device_capability()[0] in (10, 11)\n"
    ),
    "srt/machine.py": (
        'FACTS = {"is_new": "is_new_supported", "on_mid": "is_mid_supported"}\n\n\n'
        "class Machine:\n    def __getattr__(self, name):\n        helper = FACTS.get(name)\n"
        "        if helper is None:\n            raise AttributeError(name)\n"
        "        from sglang.srt import gpu as _gpu\n\n        return getattr(_gpu, helper)()\n\n\n"
        "_HERE = Machine()\n\n\ndef here():\n    return _HERE\n"
    ),
    # One name is met beside a root, the other stands alone in a file of its own.
    "srt/met.py": (
        "import torch\nfrom sglang.srt.machine import here\n\n\ndef f():\n"
        "    if torch.cuda.get_device_capability()[0] > 3 and here().is_new:\n        return 1\n"
    ),
    "srt/alone.py": (
        "from sglang.srt.machine import here\n\n\ndef g():\n    if not here().on_mid:\n        return 1\n"
        "    return 2\n"
    ),
}


def test_the_other_names_of_the_table_are_gates_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    for name, text in FILES.items():
        path = tmp_path / "tree" / "sglang" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    opened = FolderTree(tmp_path / "tree", label="t")
    report = audit(opened, AuditOptions(targets=("sm_120",), reference="sm_100", use_cache=False))
    (gate,) = [g for g in report.gates if g.path == "sglang/srt/alone.py"]
    assert gate.line == 5
    assert (gate.truth["sm_100"], gate.truth["sm_120"], gate.truth["sm_90"]) == ("false", "true", "true")
