"""Pinned dependencies, dated facts about them, and the guards that such facts make stale."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from auditor.errors import UserError
from auditor.gates.model import Predicate
from auditor.native.packages import (
    Dependency,
    Fact,
    dependency_facts,
    dependency_findings,
    holds,
    package_records,
)
from auditor.profile import Package, load_profile

TARGETS = ("sm_90", "sm_120", "sm_121")
NEW = Fact(
    versions=">=0.1.5",
    ships=True,
    targets=("sm_120",),
    fact="kernels for major version 12",
    date="2026-07-24",
    source=("https://example.org/1",),
    guards=("app.guard.FAST",),
)
OLD = msgspec.structs.replace(NEW, versions="<0.1.5", ships=False, fact="no such kernels")


class Tree:
    def __init__(self, *pins: str) -> None:
        lines = "".join(f'    "{pin}",\n' for pin in pins)
        self.files = {
            "python/app/x.py": b"",
            "python/pyproject.toml": f"[project]\ndependencies = [\n{lines}]\n".encode(),
        }

    def blobs(self) -> dict[str, str]:
        return dict.fromkeys(self.files, "x")

    def read(self, path: str) -> bytes:
        return self.files[path]


def profile():
    real = load_profile("sglang")
    assert real.start is not None
    start = msgspec.structs.replace(real.start, packages=(Package("fast-gemm"), Package("torch")))
    return msgspec.structs.replace(real, package="app", markers=("app/x.py",), start=start)


def predicate(**truth: str) -> Predicate:
    return Predicate("app.guard.FAST", "python/app/guard.py", 7, "constant", truth)  # type: ignore[arg-type]


FACTS = (Dependency("Fast_GEMM", (OLD, NEW)),)


def stale(pin: str, **truth: str) -> list:
    return dependency_findings(Tree(pin), profile(), [predicate(**truth)], TARGETS, FACTS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("fast-gemm==0.1.5", True),
        ("fast_gemm[cu13]==0.1.5.post3; sys_platform == 'linux'", True),
        ("fast-gemm (==0.2.0)", True),
        ("fast-gemm==0.1.4.post1", False),
        ("fast-gemm==0.1.*", False),
        ("fast-gemm>=0.1.5", True),
        ("fast-gemm>=0.1.4", False),
        ("fast-gemm>=0.1.5,<0.3", False),
        ("fast-gemm", False),
        ("fast-gemm @ https://example.org/x.whl", False),
        ("fast-gemm==what", False),
    ],
)
def test_a_fact_holds_for_what_a_requirement_allows(requirement: str, expected: bool) -> None:
    assert holds(NEW, requirement) is expected


def test_a_lower_bound_says_nothing_of_old_versions() -> None:
    assert holds(OLD, "fast-gemm==0.1.4")
    assert not holds(OLD, "fast-gemm>=0.1.0")


def test_records_carry_the_facts_of_the_pinned_version() -> None:
    tree = Tree("torch==2.11.0", "fast_gemm[cu13]==0.1.4", "other==1")
    found = package_records(tree, profile(), facts=FACTS)  # type: ignore[arg-type]
    assert [(p.name, p.pinned, p.line) for p in found] == [
        ("fast-gemm", "==0.1.4", 4),
        ("torch", "==2.11.0", 3),
    ]
    assert found[0].facts == ("<0.1.5 lacks for sm_120: no such kernels (2026-07-24; https://example.org/1)",)
    assert package_records(tree, profile(), ("sm_90",), FACTS)[0].facts == ()  # type: ignore[arg-type]


def test_stale_only_where_the_pinned_version_says_so() -> None:
    truth = {"sm_90": "unknown", "sm_120": "false", "sm_121": "false"}
    assert stale("fast-gemm==0.1.4", **truth) == []
    (found,) = stale("fast-gemm==0.1.5.post3", **truth)
    assert found.verdict == {"sm_90": "same", "sm_120": "fallback", "sm_121": "same"}
    assert (found.path, found.line, found.severity) == ("python/app/guard.py", 7, "note")
    assert found.message == (
        "may be stale: leaves out sm_120, but fast-gemm==0.1.5.post3 has kernels for major version 12"
    )
    assert found.detail == ("pinned python/pyproject.toml:3", "source: https://example.org/1")


def test_a_guard_that_leaves_none_out_is_unguarded_where_the_pinned_version_has_no_code() -> None:
    open_ = {"sm_90": "unknown", "sm_120": "unknown", "sm_121": "false"}
    (found,) = stale("fast-gemm==0.1.4", **open_)
    assert found.verdict == {"sm_90": "same", "sm_120": "unguarded", "sm_121": "same"}
    assert (found.path, found.line, found.severity) == ("python/app/guard.py", 7, "warning")
    assert found.message == "may hold on sm_120, but of fast-gemm==0.1.4: no such kernels"
    (found,) = stale("fast-gemm==0.1.4", **{**open_, "sm_120": "true"})
    assert found.message.startswith("holds on sm_120,")
    assert stale("fast-gemm==0.1.4", **{**open_, "sm_120": "false"}) == []
    assert stale("fast-gemm>=0.1.0", **open_) == []


def test_a_guard_that_leaves_a_sibling_out_is_told_by_the_test_that_does() -> None:
    both = (Dependency("fast-gemm", (msgspec.structs.replace(OLD, targets=("sm_120", "sm_121")),)),)
    pinned, known = Tree("fast-gemm==0.1.4"), profile()
    for truth, count in (({"sm_120": "false", "sm_121": "unknown"}, 0), ({"sm_121": "unknown"}, 1)):
        guard = predicate(**{"sm_90": "unknown", "sm_120": "unknown", **truth})
        assert len(dependency_findings(pinned, known, [guard], TARGETS, both)) == count  # type: ignore[arg-type]


def test_a_guard_that_lets_the_target_in_or_is_open_is_not_stale() -> None:
    assert stale("fast-gemm==0.2", sm_90="true", sm_120="unknown", sm_121="false") == []
    assert stale("fast-gemm==0.2", sm_90="true", sm_120="true", sm_121="false") == []
    none = dependency_findings(Tree("fast-gemm==0.2"), profile(), [], TARGETS, FACTS)  # type: ignore[arg-type]
    assert none == []


def test_the_shipped_facts_are_read_and_name_their_sources() -> None:
    facts = {d.package: d for d in dependency_facts()}
    assert {"sgl-deep-gemm", "flashinfer-python", "torch"} <= set(facts)
    assert all(f.source and f.date for d in facts.values() for f in d.facts)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"versions": "newer"}, "'newer' is no version specifier"),
        ({"source": []}, "a fact without a source is none"),
        ({"date": "last summer"}, "'last summer' is no date like 2026-07-24"),
        ({"targets": ["sm_999"]}, "no target 'sm_999'"),
        ({"colour": "blue"}, "colour"),
    ],
)
def test_mistakes_in_a_file_are_one_clear_error(tmp_path: Path, change: dict, said: str) -> None:
    fact = {**msgspec.to_builtins(NEW), **change}
    (tmp_path / "x.yaml").write_bytes(msgspec.yaml.encode({"package": "x", "facts": [fact]}))
    with pytest.raises(UserError) as caught:
        dependency_facts(tmp_path)
    assert caught.value.code == "Q050"
    assert said in caught.value.fact
