"""Wheels, folders, installed copies, releases, remotes, overlays, the cache, and which source is picked."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import platformdirs
import pytest
from test_trees_git import MARKERS, failure, git, opened, write

from auditor.errors import UserError
from auditor.trees import cache, locks, release, remote
from auditor.trees.base import SourceTree
from auditor.trees.folder import FilesOnDisk
from auditor.trees.names import blob_id
from auditor.trees.open import TreeSpec
from auditor.trees.overlay import OverlayTree
from auditor.trees.wheel import WheelTree

FILES = {
    "proj/__init__.py": b"",
    "proj/core.py": b"one = 1\n",
    "proj/deep/er/text.py": b"# caf\xc3\xa9\r\n",
    "proj/_native.so": bytes(range(256)) * 300,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache") / "c"
    monkeypatch.setenv(cache.VARIABLE, str(folder))
    return folder


def make_wheel(
    folder: Path, name: str = "proj", version: str = "0.5.14", tag: str = "py3-none-any", **extra: bytes
) -> Path:
    """A wheel with a RECORD, as an installer would take it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    files = dict(FILES) | {k.replace("__", "/"): v for k, v in extra.items()}
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: x\n".encode()
    )
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
    record = "".join(f"{p},{record_hash(d)},{len(d)}\n" for p, d in files.items())
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, data in files.items():
            archive.writestr(place, data)
    return path


def record_hash(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def leftovers(folder: Path) -> list[str]:
    return [str(p) for p in folder.rglob("*") if p.name.endswith(".tmp") or "tmp_" in p.name]


# wheels


def test_a_wheel_has_the_ids_git_would_give(tmp_path: Path) -> None:
    tree = opened(TreeSpec(wheel=str(make_wheel(tmp_path))))
    blobs = tree.blobs()
    assert {p: i for p, i in blobs.items() if p.startswith("proj/")} == {
        p: blob_id(d) for p, d in FILES.items()
    }
    assert list(blobs) == sorted(blobs)
    assert list(tree.read_many(reversed(FILES))) == list(reversed(FILES.items()))
    with pytest.MonkeyPatch.context() as patch:  # large files are not unpacked in one piece
        patch.setattr("auditor.trees.wheel.WHOLE", 10)
        patch.setattr("auditor.trees.wheel.cached_bytes", lambda *_: None)
        assert opened(TreeSpec(wheel=str(tree.path))).blobs() == blobs
    info = tree.info()
    assert (info.kind, info.label, info.version, info.commit) == ("wheel", "0.5.14", "0.5.14", None)
    with pytest.raises(KeyError):
        tree.read("proj/none.py")


def test_a_file_has_one_id_everywhere(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    trees: list[SourceTree] = [opened(TreeSpec(wheel=str(wheel)))]
    site = tmp_path / "venv/lib/python3.11/site-packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "unpacked")
        archive.extractall(site)
    trees.append(opened(TreeSpec(path=str(tmp_path / "unpacked"))))
    trees.append(opened(TreeSpec(path=str(tmp_path / "unpacked/proj"))))
    assert [tree.info().version for tree in trees] == ["0.5.14"] * 3
    trees.append(opened(TreeSpec(installed=str(tmp_path / "venv"))))
    for path, data in FILES.items():
        write(tmp_path / "clone", path, data)
    git(tmp_path / "clone", "init", "-q")
    git(tmp_path / "clone", "add", ".")
    git(tmp_path / "clone", "commit", "-qm", "x")
    trees.append(opened(TreeSpec(path=str(tmp_path / "clone"))))
    trees.append(opened(TreeSpec(path=str(tmp_path / "clone"), commit="HEAD")))
    kinds = [tree.info().kind for tree in trees]
    assert kinds == ["wheel", "folder", "folder", "installed", "worktree", "commit"]
    for path, data in FILES.items():
        assert {tree.blobs()[path] for tree in trees} == {blob_id(data)}
        assert {tree.read(path) for tree in trees} == {data}
    # The whole listing of the wheel and of what was unpacked from it is the same, and so is its id.
    assert trees[0].info().content_id == trees[1].info().content_id == trees[3].info().content_id


def test_the_listing_of_a_wheel_is_remembered_and_checked(tmp_path: Path, own_cache: Path) -> None:
    wheel = make_wheel(tmp_path)
    first = opened(TreeSpec(wheel=str(wheel)))
    expected = dict(first.blobs())
    entries = [p for p in (own_cache / "wheel-ids").rglob("*") if p.is_file()]
    assert len(entries) == 1
    assert dict(opened(TreeSpec(wheel=str(wheel))).blobs()) == expected
    good = entries[0].read_bytes()
    for damaged in (b"", good[:-1], good[:20] + b"\0" + good[21:], b"x" * 100):
        entries[0].write_bytes(damaged)
        assert dict(opened(TreeSpec(wheel=str(wheel))).blobs()) == expected
        assert entries[0].read_bytes() == good  # and it was put right


def test_a_wheel_of_another_project(tmp_path: Path) -> None:
    assert failure(TreeSpec(wheel=str(make_wheel(tmp_path, name="other")))).code == "T007"
    assert (
        opened(TreeSpec(wheel=str(make_wheel(tmp_path, name="Pr.oj"))), distribution="pr_OJ").info().version
    )
    with zipfile.ZipFile(tmp_path / "bare.zip", "w") as archive:
        archive.writestr("proj/core.py", "")
    assert failure(TreeSpec(wheel=str(tmp_path / "bare.zip"))).code == "T007"


@pytest.mark.parametrize(
    "name",
    ["../out.py", "/abs.py", "a/../../b", "C:/x.py", "a\\..\\b.py", "a//b", "proj/core.py", "./a", "a\0b"],
)
def test_unsafe_path_names(tmp_path: Path, name: str) -> None:
    wheel = make_wheel(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        entry = zipfile.ZipInfo("placeholder")
        entry.filename = name
        if "\0" in name:
            entry.filename = name.replace("\0", "Z")
        with pytest.warns(UserWarning) if name in archive.namelist() else _nothing():
            archive.writestr(entry, b"x")
    if "\0" in name:
        wheel.write_bytes(wheel.read_bytes().replace(b"aZb", name.encode()))
    assert failure(TreeSpec(wheel=str(wheel))).code == "T008"


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_bombs_and_oddities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path, proj__zeros=bytes(200_000))
    monkeypatch.setattr("auditor.trees.wheel.BOMB_FROM", 100_000)
    assert failure(TreeSpec(wheel=str(wheel))).code == "T008"  # 200,000 bytes from about 200
    monkeypatch.setattr("auditor.trees.wheel.BOMB_FROM", 1 << 30)
    opened(TreeSpec(wheel=str(wheel)))
    monkeypatch.setattr("auditor.trees.wheel.MAX_TOTAL", 250_000)
    assert failure(TreeSpec(wheel=str(wheel))).code == "T008"
    monkeypatch.undo()
    monkeypatch.setattr("auditor.trees.wheel.MAX_FILES", 3)
    assert failure(TreeSpec(wheel=str(wheel))).code == "T008"


def test_an_entry_that_lies_about_its_size(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, proj__zeros=b"0" * 5000)
    raw = wheel.read_bytes()
    assert raw.count(struct.pack("<I", 5000)) == 2
    wheel.write_bytes(raw.replace(struct.pack("<I", 5000), struct.pack("<I", 10)))
    error = failure(TreeSpec(wheel=str(wheel)))
    assert error.code == "T006"
    assert "proj/zeros" in error.fact


def test_corrupt_wheels_are_one_error(tmp_path: Path) -> None:
    good = make_wheel(tmp_path).read_bytes()
    path = tmp_path / "w.whl"
    for damaged in (
        b"",
        b"text",
        good[: len(good) // 2],
        good[len(good) // 2 :],
        good[:200] + b"\xff" * 50 + good[250:],
    ):
        path.write_bytes(damaged)
        assert failure(TreeSpec(wheel=str(path))).code == "T006"
    assert failure(TreeSpec(wheel=str(tmp_path / "none.whl"))).code == "T001"
    assert failure(TreeSpec(wheel=str(tmp_path))).code == "T014"


def test_links_in_a_wheel_are_left_out(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        link = zipfile.ZipInfo("proj/link.py")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert "proj/link.py" not in opened(TreeSpec(wheel=str(wheel))).blobs()


# folders


def test_a_folder_with_loops_links_and_depth(tmp_path: Path) -> None:
    write(tmp_path / "t", "proj/core.py", b"x")
    write(tmp_path / "t", "proj/__pycache__/core.pyc", b"x")
    write(tmp_path / "t", "/".join(["d"] * 300) + "/deep.py", b"deep")
    os.symlink("..", tmp_path / "t/proj/up")
    os.symlink("self", tmp_path / "t/proj/self")
    os.mkfifo(tmp_path / "t/proj/pipe")
    tree = opened(TreeSpec(path=str(tmp_path / "t")))
    assert list(tree.blobs()) == ["/".join(["d"] * 300) + "/deep.py", "proj/core.py"]
    assert tree.local_path("proj/core.py") == str(tmp_path / "t/proj/core.py")


def test_a_file_that_vanishes_or_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "t", "proj/core.py", b"x")
    tree = opened(TreeSpec(path=str(tmp_path / "t")))
    (tmp_path / "t/proj/core.py").unlink()
    with pytest.raises(UserError) as caught:
        tree.read("proj/core.py")
    assert caught.value.code == "T014"
    write(tmp_path / "t", "proj/core.py", b"x")

    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert failure(TreeSpec(path=str(tmp_path / "t"))).code == "T014"


def test_a_file_that_changes_while_it_is_read_is_never_taken_for_the_old_one(tmp_path: Path) -> None:
    write(tmp_path / "t", "proj/core.py", b"old")
    tree = opened(TreeSpec(path=str(tmp_path / "t")))
    write(tmp_path / "t", "proj/core.py", b"new")
    with pytest.raises(UserError) as caught:
        tree.read("proj/core.py")
    assert caught.value.code == "T014"
    assert opened(TreeSpec(path=str(tmp_path / "t"))).read("proj/core.py") == b"new"


def test_untouched_files_are_not_read_again_and_touched_ones_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded() -> list[str]:
        seen: list[str] = []
        load = FilesOnDisk._load
        with monkeypatch.context() as patch:
            patch.setattr(FilesOnDisk, "_load", lambda self, name: (seen.append(name), load(self, name))[1])
            ids.append(dict(opened(TreeSpec(path=str(tmp_path / "t"))).blobs()))
        return sorted(seen)

    ids: list[dict[str, str]] = []
    write(tmp_path / "t", "proj/core.py", b"one")
    write(tmp_path / "t", "proj/other.py", b"two")
    everything = ["proj/core.py", "proj/other.py"]
    assert loaded() == everything
    assert loaded() == everything  # written a moment ago: not settled, so not remembered
    monkeypatch.setattr("auditor.trees.folder.IdMemo.SETTLED", -(10**12))
    assert loaded() == everything
    assert loaded() == []
    before = os.stat(tmp_path / "t/proj/core.py")
    write(tmp_path / "t", "proj/core.py", b"eno")
    os.utime(tmp_path / "t/proj/core.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert loaded() == ["proj/core.py"]  # same size and modification time: the change time tells
    (tmp_path / "t/proj/other.py").unlink()
    assert loaded() == []
    assert ids[:4] == [{"proj/core.py": blob_id(b"one"), "proj/other.py": blob_id(b"two")}] * 4
    assert ids[4] == {"proj/core.py": blob_id(b"eno"), "proj/other.py": blob_id(b"two")}
    assert ids[5] == {"proj/core.py": blob_id(b"eno")}


# installed copies


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    site = tmp_path / "venv/lib/python3.12/site-packages"
    with zipfile.ZipFile(make_wheel(tmp_path / "w")) as archive:
        archive.extractall(site)
    write(site, "other/a.py", b"not ours")
    write(site, "proj/__pycache__/core.cpython-312.pyc", b"x")
    record = site / "proj-0.5.14.dist-info/RECORD"
    record.write_text(record.read_text() + "../../../bin/proj,,\nproj/__pycache__/core.cpython-312.pyc,,\n")
    write(tmp_path / "venv", "bin/python", b"")
    return tmp_path / "venv"


@pytest.mark.parametrize("where", ["", "bin/python", "lib/python3.12/site-packages"])
def test_an_installed_copy_is_what_its_record_lists(venv: Path, where: str) -> None:
    tree = opened(TreeSpec(installed=str(venv / where)))
    assert [p for p in tree.blobs() if "dist-info" not in p] == sorted(FILES)
    assert (tree.info().version, tree.info().dirty) == ("0.5.14", False)
    assert str(venv) not in repr(tree.info())


def test_a_patched_installed_copy_says_so(venv: Path) -> None:
    (venv / "lib/python3.12/site-packages/proj/core.py").write_bytes(b"one = 9\n")
    info = opened(TreeSpec(installed=str(venv))).info()
    assert (info.dirty, info.label) == (True, "0.5.14, changed since it was installed")


def test_an_editable_install_leads_to_its_clone(venv: Path, tmp_path: Path) -> None:
    write(tmp_path / "src", "python/proj/core.py", b"edit")
    git(tmp_path / "src", "init", "-q")
    url = (tmp_path / "src/python").as_uri()
    info = venv / "lib/python3.12/site-packages/proj-0.5.14.dist-info"
    (info / "direct_url.json").write_text(f'{{"url": "{url}", "dir_info": {{"editable": true}}}}')
    tree = opened(TreeSpec(installed=str(venv)))
    assert (tree.info().kind, tree.read("python/proj/core.py")) == ("worktree", b"edit")


def test_nothing_installed(venv: Path, tmp_path: Path) -> None:
    assert failure(TreeSpec(installed=str(venv)), distribution="absent").code == "T011"
    assert failure(TreeSpec(installed=str(tmp_path / "no"))).code == "T001"
    assert failure(TreeSpec(installed=True), distribution="absent-project").code == "T011"


def test_the_copy_of_this_interpreter_is_found_without_importing_it() -> None:
    tree = opened(TreeSpec(installed=True), distribution="iniconfig", marker="iniconfig/__init__.py")
    assert tree.info().kind == "installed"
    assert tree.info().version


# overlays


def test_an_overlay_is_a_tree(tmp_path: Path) -> None:
    base = opened(TreeSpec(wheel=str(make_wheel(tmp_path))))
    changes = {"proj/core.py": b"one = 2\n", "proj/new.py": b"new", "proj/_native.so": None}
    tree = OverlayTree(base, changes)
    assert tree.read("proj/new.py") == b"new"
    assert tree.blobs()["proj/core.py"] == blob_id(b"one = 2\n")
    assert list(tree.blobs()) == sorted(tree.blobs())
    with pytest.raises(KeyError):
        tree.read("proj/_native.so")
    with pytest.raises(KeyError):
        list(tree.read_many(["proj/_native.so"]))
    order = ["proj/new.py", "proj/__init__.py", "proj/core.py", "proj/deep/er/text.py"]
    assert [p for p, _ in tree.read_many(order)] == order
    assert [d for _, d in tree.read_many(order)] == [b"new", b"", b"one = 2\n", FILES["proj/deep/er/text.py"]]
    assert (tree.info().kind, tree.info().version, tree.info().dirty) == ("overlay", "0.5.14", True)
    assert tree.changed_paths() == ("proj/_native.so", "proj/core.py", "proj/new.py")
    # Undone by a second overlay, the content is the base's again.
    back = OverlayTree(
        tree, {"proj/core.py": b"one = 1\n", "proj/new.py": None, "proj/_native.so": FILES["proj/_native.so"]}
    )
    assert back.info().content_id == base.info().content_id
    assert tree.info().content_id != base.info().content_id


@pytest.mark.parametrize("path", ["", "../x", "/x", "a//b", "a/./b", "a\0b"])
def test_an_overlay_stays_inside(tmp_path: Path, path: str) -> None:
    base = opened(TreeSpec(wheel=str(make_wheel(tmp_path))))
    with pytest.raises(ValueError):
        OverlayTree(base, {path: b""})
    with pytest.raises(ValueError):
        OverlayTree(base, {"proj/not-there.py": None})


# remotes


@pytest.fixture
def server(tmp_path: Path) -> Path:
    folder = tmp_path / "server"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "uploadpack.allowFilter", "true")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    write(folder, "python/proj/core.py", b"one = 1\n")
    write(folder, "docs/guide.md", b"guide\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    git(folder, "tag", "v1.0")
    return folder


def test_a_remote_is_cloned_without_contents_and_kept(server: Path, own_cache: Path) -> None:
    spec = TreeSpec(repo=server.as_uri())
    tree = opened(spec, source_roots=["python/proj"])
    assert (tree.info().kind, tree.info().version) == ("remote", "1.0")
    clones = list((own_cache / "clones").iterdir())
    assert [c.suffix for c in clones] == [".git"]
    absent = git(clones[0], "rev-list", "--objects", "--no-walk", "--missing=print", "HEAD").count("?")
    assert absent == 1  # the guide: only the files under the source root came
    assert tree.read("python/proj/core.py") == b"one = 1\n"
    assert tree.read("docs/guide.md") == b"guide\n"
    # The branch moves on; a new commit on no branch at all; both are found, the clone is the same one.
    write(server, "python/proj/core.py", b"one = 2\n")
    git(server, "commit", "-qam", "second")
    assert opened(spec).read("python/proj/core.py") == b"one = 2\n"
    git(server, "checkout", "-q", "--detach")
    write(server, "python/proj/core.py", b"one = 3\n")
    git(server, "commit", "-qam", "third")
    oid = git(server, "rev-parse", "HEAD")
    assert opened(TreeSpec(repo=server.as_uri(), commit=oid)).read("python/proj/core.py") == b"one = 3\n"
    assert opened(TreeSpec(repo=server.as_uri(), commit="v1.0")).read("python/proj/core.py") == b"one = 1\n"
    assert list((own_cache / "clones").iterdir()) == clones
    # And without the remote, what is here still serves.
    shutil.rmtree(server)
    assert opened(TreeSpec(repo=server.as_uri(), commit="v1.0")).read("python/proj/core.py") == b"one = 1\n"
    notes = opened(TreeSpec(repo=server.as_uri())).info().notes
    assert any("newest commit known here" in note for note in notes)


def test_remote_failures_leave_nothing(server: Path, tmp_path: Path, own_cache: Path) -> None:
    assert failure(TreeSpec(repo=(tmp_path / "nothing").as_uri())).code == "T010"
    assert list((own_cache / "clones").iterdir()) == []
    for url in ("-x", "ext::sh -c true", "--upload-pack=true", "https://a b", "a\0b", ""):
        assert failure(TreeSpec(repo=url)).code == "T015", url
    error = failure(TreeSpec(repo=server.as_uri(), commit="mian"))
    assert error.code == "T002"
    assert error.hints[0] == "did you mean main?"
    assert failure(TreeSpec(repo=server.as_uri(), commit="a" * 40)).code == "T002"
    assert leftovers(own_cache) == []


def test_an_interrupted_clone_leaves_nothing(
    server: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(args: list[str], **_: object) -> None:
        Path(args[-1]).mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(remote, "run_git", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened(TreeSpec(repo=server.as_uri()))
    assert list((own_cache / "clones").iterdir()) == []
    monkeypatch.undo()
    monkeypatch.setenv(cache.VARIABLE, str(own_cache))
    assert opened(TreeSpec(repo=server.as_uri())).read("python/proj/core.py") == b"one = 1\n"


# releases


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip looks in this folder only."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    return folder


def test_a_release_is_downloaded_once(index: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(index, tag="cp311-cp311-manylinux_2_34_x86_64")
    tree = opened(TreeSpec(release="v0.5.14"))
    assert (tree.info().kind, tree.info().version, tree.read("proj/core.py")) == (
        "release",
        "0.5.14",
        b"one = 1\n",
    )
    assert leftovers(own_cache) == []
    wheel.unlink()
    monkeypatch.setattr(subprocess, "Popen", None)  # nothing is started any more
    assert dict(opened(TreeSpec(release="0.5.14")).blobs()) == dict(tree.blobs())


def test_a_build_for_another_python_will_do(index: Path) -> None:
    make_wheel(index, version="0.6.0", tag="cp313-cp313-manylinux_2_34_aarch64")
    assert opened(TreeSpec(release="0.6.0")).info().version == "0.6.0"


def test_a_damaged_download_is_fetched_again(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "_pip_download", lambda _d, _v, into: make_wheel(into))
    opened(TreeSpec(release="0.5.14"))
    (kept,) = own_cache.glob("wheels/*/*.whl")
    good = kept.read_bytes()
    kept.write_bytes(good[:-100] + bytes(100))
    assert opened(TreeSpec(release="0.5.14")).read("proj/core.py") == b"one = 1\n"
    assert kept.read_bytes() == good


def test_no_such_release(index: Path, own_cache: Path) -> None:
    make_wheel(index, version="0.5.13")
    error = failure(TreeSpec(release="0.5.99"))
    assert error.code == "T009"
    assert error.hints == ("--release 0.5.13",)
    assert [p for p in (own_cache / "wheels").iterdir()] == []
    for word in ("", "latest", "1;x", "../1", "-r"):
        assert failure(TreeSpec(release=word)).code == "T015"


def test_what_pip_says_becomes_one_error() -> None:
    no_network = "WARNING: Retrying ... NewConnectionError: Failed to establish a new connection\nERROR: none"
    assert release._pip_error(no_network, "proj", "1").code == "T010"
    assert release._pip_error("/usr/bin/python: No module named pip", "proj", "1").code == "T009"
    assert release._pip_error("OSError: [Errno 28] No space left on device", "proj", "1").code == "T014"


def test_an_interrupted_download_leaves_nothing(
    index: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_d: str, _v: str, into: Path) -> None:
        (into / "half.whl").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(release, "_pip_download", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened(TreeSpec(release="0.5.14"))
    assert list((own_cache / "wheels").iterdir()) == []


# the cache


def test_what_is_stored_comes_back(own_cache: Path) -> None:
    assert cache.cached_bytes("facts", "key") is None
    for key in ("key", "a/../b", "x" * 500, "caf\u00e9", ""):
        assert cache.store_bytes("facts", key, key.encode() + b"\0data")
        assert cache.cached_bytes("facts", key) == key.encode() + b"\0data"
    assert (own_cache / "README.txt").is_file()
    assert (
        (own_cache / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55")
    )
    assert cache.cache_usage()["facts"][0] == 5
    assert leftovers(own_cache) == []
    assert cache.clear_cache() > 0
    assert cache.cached_bytes("facts", "key") is None
    assert (own_cache / "CACHEDIR.TAG").is_file()


def test_a_damaged_entry_is_a_miss(own_cache: Path) -> None:
    cache.store_bytes("facts", "key", b"data")
    (entry,) = [p for p in (own_cache / "facts").rglob("*") if p.is_file()]
    good = entry.read_bytes()
    for damaged in (b"", good[:3], good[:-1], good + b"x", b"XXXX" + good[4:]):
        entry.write_bytes(damaged)
        assert cache.cached_bytes("facts", "key") is None


def test_a_full_disk_costs_the_entry_and_nothing_else(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    cache.store_bytes("facts", "old", b"old")
    monkeypatch.setattr(os, "replace", full)
    assert cache.store_bytes("facts", "key", b"data") is False
    assert leftovers(own_cache) == []
    assert cache.cached_bytes("facts", "old") == b"old"


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file/cache"))
    assert cache.store_bytes("facts", "key", b"") is False
    with pytest.raises(UserError) as caught, locks.locked_folder("wheels"):
        pass
    assert caught.value.code == "T014"
    assert any(cache.VARIABLE in hint for hint in caught.value.hints)


def test_a_folder_that_is_not_ours_is_not_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "precious/data", b"x")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    assert cache.clear_cache() == 0
    assert (tmp_path / "precious/data").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the short cut is taken on Linux only")
@pytest.mark.parametrize("base", [None, "", "relative", "/var/tmp/x"])
def test_the_default_place_is_the_usual_one(base: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cache.VARIABLE)
    if base is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", base)
    if base != "relative":  # not allowed by the standard; platformdirs takes it as it is
        assert cache.cache_dir() == platformdirs.user_cache_path("sglang-auditor", appauthor=False)
    assert cache.cache_dir().is_absolute()


# which source is picked


def test_options_that_exclude_each_other_are_both_named() -> None:
    for spec, names in (
        (TreeSpec(path="a", wheel="b"), ("--path", "--wheel")),
        (TreeSpec(release="1", installed=True), ("--release", "--installed")),
        (TreeSpec(commit="a", release="1"), ("--commit", "--release")),
        (TreeSpec(commit="a", worktree=True), ("--worktree", "--commit")),
        (TreeSpec(worktree=True, repo="https://example.org/x"), ("--worktree", "--repo")),
    ):
        error = failure(spec)
        assert error.code == "T012"
        assert all(name in error.fact for name in names)


def test_the_search_goes_from_near_to_far(
    server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    public = {"default_url": server.as_uri(), "distribution": "no-such-project"}
    tree = opened(TreeSpec(), **public)
    assert tree.info().kind == "remote"
    assert server.as_uri() in tree.info().notes[0] and "--path" in tree.info().notes[0]
    # A clone beside the folder, under the project's name, comes before the remote.
    git(tmp_path, "clone", "-q", str(server), "no-such-project")
    tree = opened(TreeSpec(), **public)
    assert tree.info().kind == "worktree"
    assert "../no-such-project" in tree.info().notes[0]
    tree = opened(TreeSpec(commit="v1.0"), **public)
    assert (tree.info().kind, tree.read("python/proj/core.py")) == ("commit", b"one = 1\n")
    # From inside it as well, whatever the depth.
    monkeypatch.chdir(tmp_path / "no-such-project/python/proj")
    assert opened(TreeSpec(), **public).info().kind == "worktree"
    assert str(tmp_path) not in " ".join(opened(TreeSpec(), **public).info().notes)
    # A commit the clone lacks is looked for in the public repository.
    monkeypatch.chdir(empty)
    write(server, "python/proj/core.py", b"one = 2\n")
    git(server, "commit", "-qam", "second")
    oid = git(server, "rev-parse", "HEAD")
    tree = opened(TreeSpec(commit=oid), **public)
    assert (tree.info().kind, tree.info().commit) == ("remote", oid)
    # And if that cannot be reached, the error is about the clone that is here.
    gone = {**public, "default_url": (tmp_path / "gone").as_uri()}
    assert failure(TreeSpec(commit="e" * 40), **gone).code == "T002"


def test_a_repository_of_something_else_around_us_is_no_source(
    server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "mine")
    monkeypatch.chdir(tmp_path / "mine")
    assert failure(TreeSpec(), distribution="no-such-project").code == "T001"
    with zipfile.ZipFile(make_wheel(tmp_path / "w")) as archive:
        archive.extractall(tmp_path / "mine/vendor")
    tree = opened(TreeSpec(path="vendor"))
    assert (tree.info().kind, tree.read(MARKERS[1])) == ("folder", b"one = 1\n")


@pytest.mark.wheels
@pytest.mark.skipif(
    not os.environ.get("SGLANG_AUDITOR_WHEELS"),
    reason="SGLANG_AUDITOR_WHEELS does not name a folder of wheels",
)
def test_real_wheels() -> None:
    folder = Path(os.environ["SGLANG_AUDITOR_WHEELS"])
    if not folder.is_dir():
        pytest.skip("no wheels: run `make wheels`")
    found = sorted(folder.glob("sglang-*.whl"))
    assert found
    tree = WheelTree(found[0], distribution="sglang")
    with zipfile.ZipFile(found[0]) as archive:
        names = [n for n in archive.namelist() if n.endswith(".py")]
        assert [p for p in tree.blobs() if p.endswith(".py")] == sorted(names)
        for path, data in tree.read_many(names[:200]):
            assert data == archive.read(path)


def test_the_cache_forgets_what_was_not_asked_for_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    from auditor.trees import cache

    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_DIR", str(tmp_path / "cache"))
    for number in range(10):
        assert cache.store_bytes("facts", f"{number:064x}", bytes(1000))
    for number, (_, _, path) in enumerate(sorted(cache._entries(), key=lambda entry: entry[2])):
        os.utime(path, (number + 1, number + 1))
    assert cache.cached_bytes("facts", f"{0:064x}") is not None  # asked for: now the youngest
    (tmp_path / "cache" / "wheels").mkdir()
    (tmp_path / "cache" / "wheels" / "large.whl").write_bytes(bytes(50_000))
    assert cache.evict(100_000) == 0
    assert cache.evict(5_000) > 0
    left = [number for number in range(10) if cache.cached_bytes("facts", f"{number:064x}") is not None]
    assert left == [0, 8, 9]
    assert (tmp_path / "cache" / "wheels" / "large.whl").exists()


@pytest.mark.parametrize(
    ("text", "size"),
    [("500M", 500 << 20), ("1g", 1 << 30), ("12KiB", 12 << 10), ("7", 7), ("", 2 << 30), ("much", 2 << 30)],
)
def test_the_size_of_the_cache_can_be_said(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    from auditor.trees.cache import cache_limit

    monkeypatch.setenv("SGLANG_AUDITOR_CACHE_SIZE", text)
    assert cache_limit() == size
