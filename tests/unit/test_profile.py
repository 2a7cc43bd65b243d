"""A profile is strict, its patterns mean what they say, and the shipped one covers both layouts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from auditor.errors import UserError
from auditor.gates.arms import effects
from auditor.profile import Profile, compile_patterns, load_profile, profile_names, read_profile

SMALL = """\
name: tiny
title: Tiny
package: tiny
url: https://example.org/tiny
distributions: [tiny]
roots: {repository: [python]}
markers: [tiny/__init__.py]
"""


@pytest.fixture(scope="module")
def sglang() -> Profile:
    return load_profile("sglang")


def _read(tmp_path: Path, text: str) -> Profile:
    path = tmp_path / "tiny.yaml"
    path.write_text(text)
    return read_profile(path, "tiny.yaml")


def _error(tmp_path: Path, text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        _read(tmp_path, text)
    assert caught.value.code == "U011"
    return caught.value


def test_the_shipped_profile(sglang: Profile) -> None:
    assert profile_names() == ["sglang"]
    assert sglang.package == "sglang"
    assert sglang.roots.repository == ("python",)
    assert sglang.roots.wheel == ("",)
    assert [flag.qualified for flag in sglang.flags] == ["sglang.srt.environ.Envs"]
    assert sglang.arguments[0].folders == ("sglang/srt/arg_groups/",)
    assert sglang.models is not None and sglang.models.folders == ("sglang/srt/models/",)


def test_what_only_logs_is_no_effect_of_an_arm(sglang: Profile) -> None:
    text = 'print("a")\nlogger.info("b")\nlog_info_on_rank0(logger, "c")\nswitch("d")\n'
    body = ast.parse(text).body
    assert [effect.what for effect in effects(body, sglang.loggers)] == ["switch('d')"]
    assert [effect.what for effect in effects(body, ())] == ["log_info_on_rank0", "switch('d')"]


@pytest.mark.parametrize(
    ("path", "area"),
    [
        ("python/sglang/srt/layers/attention/deepseek_v4_backend.py", "attention"),
        ("sglang/srt/layers/attention/deepseek_v4_backend.py", "attention"),
        ("sglang/srt/layers/attention/dsv4/indexer.py", "indexer"),
        ("sglang/srt/layers/deep_gemm_wrapper/configurer.py", "deepgemm"),
        ("sglang/srt/layers/quantization/mxfp4_marlin_moe.py", "moe"),
        ("sglang/srt/layers/quantization/fp8_utils.py", "quantization"),
        ("sglang/srt/layers/moe/fused_moe_triton/layer.py", "moe"),
        ("sglang/srt/layers/linear.py", "gemm"),
        ("sglang/srt/server_args.py", "arguments"),
        ("sglang/srt/arg_groups/model_overrides/deepseek.py", "arguments"),
        ("sglang/srt/speculative/eagle_utils.py", "speculative"),
        ("sglang/srt/disaggregation/nixl/conn.py", "disaggregation"),
        ("sglang/srt/distributed/device_communicators/pynccl.py", "distributed"),
        ("sglang/srt/mem_cache/memory_pool.py", "memory"),
        ("sglang/srt/models/deepseek_v4.py", "models"),
        ("sglang/srt/utils/common.py", "platform"),
        ("sglang/kernels/ops/attention/flash_mla_sm120.py", "attention"),
        ("sglang/kernels/ops/gemm/fp8.py", "gemm"),
        ("sglang/kernels/ops/lora/moe/a.py", "lora"),
        ("sglang/jit_kernel/nvfp4.py", "quantization"),
        ("sglang/jit_kernel/norm.py", "kernels"),
        ("sglang/multimodal_gen/runtime/layers/attention/a.py", "diffusion"),
        ("sglang/launch_server.py", "tools"),
        ("elsewhere/a.py", ""),
    ],
)
def test_areas(sglang: Profile, path: str, area: str) -> None:
    assert sglang.area(path) == area


@pytest.mark.parametrize(
    ("path", "excluded"),
    [
        ("python/sglang/test/test_utils.py", True),
        ("sglang/multimodal_gen/test/unit/a.py", True),
        ("sglang/jit_kernel/benchmark/a.py", True),
        ("sglang/srt/layers/test_thing.py", True),
        ("sglang/srt/layers/attention/latest/a.py", False),
        ("sglang/srt/server_args.py", False),
        ("sglang/bench_serving.py", False),
    ],
)
def test_excluded(sglang: Profile, path: str, excluded: bool) -> None:
    assert sglang.is_excluded(path) is excluded


def test_root(sglang: Profile) -> None:
    assert sglang.root_of({"python/sglang/version.py": "x"}) == "python"
    assert sglang.root_of({"sglang/srt/server_args.py", "README.md"}) == ""
    assert sglang.root_of({"README.md"}) is None
    assert sglang.root_of(iter(["sglang/version.py"])) == ""


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("a/", "a/b/c.py", True),
        ("a/", "ab/c.py", False),
        ("a/*.py", "a/b.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/b.py", "a/b.pyc", False),
        ("**/t/**", "t/x.py", True),
        ("**/t/**", "a/b/t/c/x.py", True),
        ("**/t/**", "a/bt/x.py", False),
        ("**/*gemm*", "a/deep_gemm.py", True),
        ("**/*gemm*", "a/gemm/x.py", False),
        ("a.b", "aXb", False),
    ],
)
def test_patterns(pattern: str, path: str, fits: bool) -> None:
    assert bool(compile_patterns((pattern,)).match(path)) is fits


def test_no_patterns_fit_nothing() -> None:
    assert not compile_patterns(()).match("")
    assert not compile_patterns(()).match("a.py")


def test_a_small_profile(tmp_path: Path) -> None:
    profile = _read(tmp_path, SMALL)
    assert profile.area("tiny/a.py") == ""
    assert not profile.is_excluded("tiny/a.py")


def test_mistakes(tmp_path: Path) -> None:
    assert _error(tmp_path, SMALL + "arears: []\n").hints == ("write `areas` instead of `arears`",)
    assert _error(tmp_path, SMALL + "arears: []\n").place == "tiny.yaml:8:1"
    assert _error(tmp_path, SMALL + "package: b\n").place == "tiny.yaml:8:1"
    assert "`url` is empty" in _error(tmp_path, SMALL.replace("https://example.org/tiny", "''")).fact
    assert _error(tmp_path, SMALL + "exclude: [../x]\n").place == "tiny.yaml:8:11"
    assert _error(tmp_path, SMALL + "exclude: [/x]\n").place == "tiny.yaml:8:11"
    twice = "areas:\n- {name: a, paths: [x/]}\n- {name: a, paths: [y/]}\n"
    assert _error(tmp_path, SMALL + twice).place == "tiny.yaml:10:3"


@pytest.mark.parametrize("name", ["vllm", "../sglang", "", "sglang.yaml"])
def test_unknown_profile(name: str) -> None:
    with pytest.raises(UserError) as caught:
        load_profile(name)
    assert caught.value.hints == ("audit sglang",)


def test_memo_saves_the_reading_and_survives_damage(sglang: Profile) -> None:
    memo: dict[bytes, bytes] = {}
    assert load_profile("sglang", memo=memo) == sglang
    (key,) = memo
    assert load_profile("sglang", memo=memo) == sglang
    memo[key] = memo[key].replace(b'"title":"SGLang"', b'"title":"kept"')
    assert load_profile("sglang", memo=memo).title == "kept"
    memo[key] = b"{broken"
    assert load_profile("sglang", memo=memo) == sglang
