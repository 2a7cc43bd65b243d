"""From the shared options to an open tree and its audit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from auditor.cli.progress import Progress
from auditor.cli.request import Request

if TYPE_CHECKING:
    from auditor.gates.model import Report
    from auditor.trees.base import SourceTree


@contextmanager
def opened(request: Request) -> Iterator[SourceTree]:
    """The tree that the options name, closed afterwards. UserError T0nn where there is none.

    A download or a clone can take a while, and the layers below say nothing: the progress line names it.
    """
    from auditor.profile import load_profile
    from auditor.trees.open import TreeSpec, open_tree

    profile = load_profile(request.project, memo=Memo() if request.use_cache else None)
    spec = TreeSpec(
        path=request.path,
        commit=request.commit,
        release=request.release,
        wheel=request.wheel,
        installed=request.installed,
        repo=request.repo,
        worktree=request.worktree,
        allow_fetch=request.allow_fetch,
    )
    roots = (*profile.roots.repository, *profile.roots.wheel)
    with Progress(request.quiet).waiting(f"opening {request.project} {_named(request)}"):
        tree = open_tree(
            spec,
            distribution=profile.distributions[0] if profile.distributions else None,
            default_url=profile.url,
            source_roots=profile.roots.repository,
            marker=[f"{root}/{marker}" if root else marker for root in roots for marker in profile.markers],
        )
    try:
        yield tree
    finally:
        close = getattr(tree, "close", None)
        if close is not None:
            close()


def audited(tree: SourceTree, request: Request) -> Report:
    """The audit of ``tree`` as the options ask for it, from the cache where it is there."""
    from auditor.reporting import jsonout

    return jsonout.loads(audited_json(tree, request), "the cached report")


def audited_json(tree: SourceTree, request: Request) -> bytes:
    """The same as the bytes of the published JSON."""
    from auditor.gates.cache import Asked, kept_report

    asked = Asked(
        targets=request.targets,
        reference=request.reference,
        assumptions=request.assumptions,
        defaults=request.defaults,
        project=request.project,
        use_cache=request.use_cache,
    )
    with Progress(request.quiet) as progress:
        return kept_report(
            tree,
            asked,
            encode=_encoded,
            decode=_decoded,
            progress=progress,
        )


def _encoded(report: Report) -> bytes:
    from auditor.reporting import jsonout

    return jsonout.dumps(report)


def _decoded(data: bytes) -> Report:
    from auditor.reporting import jsonout

    return jsonout.loads(data, "a kept report")


def show(page: Callable[..., None], report: Any, request: Request, tree: SourceTree) -> None:
    """Print a report by its page for terminals, where and how the request says."""
    from auditor.cli.output import render

    def draw(console: Any) -> None:
        page(
            report,
            console,
            verbose=request.verbose,
            quiet=request.quiet,
            tree=tree,
            command=tree_words(request),
        )

    render(draw, request.output, request.color)


def tree_words(request: Request) -> str:
    """The options that choose the same tree and assume the same facts again, as they can be typed; "" where
    none was given."""
    import shlex

    words: list[str] = []
    for option in ("path", "commit", "release", "wheel", "repo"):
        value = getattr(request, option)
        if value is not None:
            words += [f"--{option}", shlex.quote(value)]
    if request.worktree:
        words.append("--worktree")
    if request.installed is not None:
        words.append("--installed")
        words += [shlex.quote(request.installed)] if isinstance(request.installed, str) else []
    for key, value in request.assumptions.items():
        words += ["--assume", shlex.quote(f"{key}={value}")]
    words += ["--defaults"] if request.defaults else []
    return " ".join(words)


def _named(request: Request) -> str:
    return str(request.release or request.wheel or request.commit or request.repo or request.path or "")


def _key(key: bytes) -> str:
    import hashlib

    return hashlib.sha256(key).hexdigest()


class Memo(MutableMapping[bytes, bytes]):
    """The cache folder as the mapping that decoders of settled files take."""

    def __getitem__(self, key: bytes) -> bytes:
        from auditor.trees.cache import cached_bytes

        found = cached_bytes("memo", _key(key))
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: bytes, value: bytes) -> None:
        from auditor.trees.cache import store_bytes

        store_bytes("memo", _key(key), value)

    def __delitem__(self, key: bytes) -> None:
        raise KeyError(key)

    def __iter__(self) -> Iterator[bytes]:
        return iter(())

    def __len__(self) -> int:
        return 0
