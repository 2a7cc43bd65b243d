"""After a kernel is registered: once, built for its GPUs, reached at its call site there and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from auditor.arch import load_targets
from auditor.gates.audit import AuditOptions, audit
from auditor.patching.planning.plan import plan
from auditor.patching.proof.registration import registration_faults
from auditor.patching.sets.patchset import load_patchset
from auditor.profile import OperatorFunction
from auditor.queries.exampletree import PRELUDE, PROFILE, MemoryTree

PROJECT = msgspec.structs.replace(
    PROFILE,
    operators=(
        OperatorFunction(
            function="example.register.operator",
            namespace="shop",
            name="called",
            decorates=True,
            mutates="writes",
            fake="shape",
        ),
    ),
)
TREE = {
    "example/register.py": "def operator(fn=None, **words): ...\n",
    "example/model.py": (
        "from example.gpu import major, on_cuda, workstation\n"
        "from example.settings import flags\n\n\n"
        "def forward(x, out, long):\n"
        "    if long and workstation():\n        plain(x, out)\n        return out\n"
        "    if major() == 9:\n        hopper(x, out)\n        return out\n"
        "    other(x, out)\n    return out\n\n\n"
        "def plain(x, out): ...\n\n\ndef other(x, out): ...\n\n\ndef hopper(x, out): ...\n"
    ),
}
PATCH = """\
title: A kernel
why: {kind: local-only, reason: a test}
removal: never
status: Pending
targets: [sm_120, sm_121]
edits:
  - register-kernel:
      in: example.scale
      operator: shop::scale
      through: project
      file: {path: example/scale.py, from: scale.py}
      schema: "(Tensor x, Tensor(a!) out) -> ()"
      implementation: scale
      fake: scale_fake
      dispatch:
        - in: example.model.forward
          at: AT($...ARGS)
          when: WHEN
          off: flags.SLOW_PATH.get()
          imports: [from example.scale import scale]
          code: |
            scale(x, out)
            return out
"""
SCALE = (
    "import torch\n\n\ndef scale(x: torch.Tensor, out: torch.Tensor) -> None: ...\n\n\n"
    "def scale_fake(x, out): ...\n"
)


def faults(folder: Path, when: str, at: str, more: dict[str, str] | None = None) -> tuple[list[str], int]:
    (folder / "mine" / "patches").mkdir(parents=True)
    (folder / "mine" / "files").mkdir()
    (folder / "mine" / "patchset.yaml").write_text(
        "title: Faster\nupstreams:\n  example: {url: 'https://example.invalid/'}\norder: [kernel]\n"
        "files:\n  scale.py: {licence: Apache-2.0, provenance: written for this}\n"
    )
    (folder / "mine" / "files" / "scale.py").write_text(SCALE)
    text = PATCH.replace("WHEN", when).replace("AT(", f"{at}(")
    (folder / "mine" / "patches" / "kernel.yaml").write_text(text)
    base = MemoryTree({**PRELUDE, **TREE})
    planned = plan(load_patchset(folder / "mine"), base, PROJECT)
    assert planned.counts() == {"clean": 1}, [h.note for h in planned.entries[0].outcome.hunks]
    if more:
        files = {path: planned.result.read(path).decode() for path in planned.result.blobs()}
        planned = replace(planned, tree=MemoryTree({**files, **more}), files={})
    options = AuditOptions(targets=tuple(load_targets()), profile=PROJECT, queries=(), use_cache=False)
    return registration_faults(planned, audit(planned.result, options))


def test_as_it_should_be(tmp_path: Path) -> None:
    assert faults(tmp_path, "workstation()", "other") == ([], 1)


def test_reached_elsewhere(tmp_path: Path) -> None:
    found, _ = faults(tmp_path, "on_cuda() and major() >= 10", "other")
    line = "kernel: example/model.py:12 may be reached on {}, which the patch is not for"
    assert found == [line.format(target) for target in ("sm_100", "sm_103", "sm_110")]


def test_not_reached_where_it_should_be(tmp_path: Path) -> None:
    found, _ = faults(tmp_path, "workstation()", "hopper")
    assert found == [
        "kernel: example/model.py:10 is not reached on sm_120",
        "kernel: example/model.py:10 is not reached on sm_121",
    ]


def test_not_a_question_about_the_gpu(tmp_path: Path) -> None:
    found, _ = faults(tmp_path, "flags.FAST_PATH.get()", "other")
    assert len(found) == 1 and "example/model.py:12 does not depend on the GPU" in found[0]


def test_registered_twice_or_dispatched_twice(tmp_path: Path) -> None:
    again = "from example.register import operator\n\n@operator\ndef scale(x): ...\n"
    found, _ = faults(tmp_path, "workstation()", "other", {"example/more.py": again})
    assert found == [
        "kernel: shop::scale is registered 2 times: example/more.py:4, example/scale.py:13",
    ]


def test_a_call_site_imports_nothing_that_its_file_has(tmp_path: Path) -> None:
    """Names of the module and of the function above are used, not those that the function binds itself."""

    def made(body: str) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        (folder / "patches").mkdir(parents=True)
        (folder / "files").mkdir()
        (folder / "patchset.yaml").write_text(
            "title: Faster\nupstreams:\n  example: {url: 'https://example.invalid/'}\norder: [kernel]\n"
            "files:\n  scale.py: {licence: Apache-2.0, provenance: written for this}\n"
        )
        (folder / "files" / "scale.py").write_text(SCALE)
        imports = "[from example.gpu import workstation, from example.settings import flags, IMPORT]"
        text = PATCH.replace("WHEN", "workstation()").replace("AT(", "other(")
        text = text.replace("[from example.scale import scale]", imports)
        text = text.replace("IMPORT", "from example.scale import scale")
        (folder / "patches" / "kernel.yaml").write_text(text)
        head = "from example.gpu import workstation\nfrom example.settings import flags\n\n\n"
        tree = {**PRELUDE, **TREE, "example/model.py": head + body + "\n\ndef other(x, out): ...\n"}
        planned = plan(load_patchset(folder), MemoryTree(tree), PROJECT)
        assert planned.counts() == {"clean": 1}, [h.note for h in planned.entries[0].outcome.hunks]
        again = plan(load_patchset(folder), planned.result, PROJECT)
        assert again.counts() == {"upstream": 1}
        return planned.result.read("example/model.py").decode().split("\n\n\n")[1]

    arm = (
        "    if workstation() and not flags.SLOW_PATH.get():\n"
        "        from example.scale import scale\n\n        scale(x, out)\n        return out\n"
    )
    forward, rest = "def forward(x, out):\n", "    other(x, out)\n    return out"
    assert made(forward + rest + "\n") == forward + arm + rest
    # Above the call site in the function, too.
    own = "    from example.scale import scale\n\n"
    inner = arm.replace("        from example.scale import scale\n\n", "")
    assert made(forward + own + rest + "\n") == forward + own + inner + rest
    # The function makes `flags` a name of its own below: there the module's is not seen.
    later = rest.replace("    return", "    from example.settings import flags\n    return")
    head = "    from example.settings import flags\n\n"
    assert made(forward + later + "\n") == forward + head + arm + later
