"""A release, downloaded once through pip into the cache and read as a wheel. It is never installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from auditor.errors import UserError
from auditor.lazyre import lazy
from auditor.trees.base import SourceTree
from auditor.trees.cache import cache_dir, write_whole
from auditor.trees.locks import cache_trouble, locked_folder
from auditor.trees.names import normal_name
from auditor.trees.wheel import WheelTree

_VERSION = lazy(r"v?(\d+(?:\.\d+)*(?:[-_.]?(?:a|b|rc|post|dev)\d*)*(?:\+[a-z0-9.]+)?)", re.IGNORECASE)

#: Which build is read does not depend on the machine that reads it, so that the same release is the same
#: bytes everywhere. If there is no such build, the index is asked which ones there are.
_FIRST_CHOICE = (
    "311",
    "cp311",
    tuple(f"manylinux_2_{minor}_x86_64" for minor in range(45, 16, -1))
    + ("manylinux2014_x86_64", "linux_x86_64"),
)


def release_tree(distribution: str, version: str, *, notes: Sequence[str] = ()) -> SourceTree:
    """The wheel of a release. ``UserError`` T009 no such release, T010 no network, T014 no space."""
    version = checked_version(version)
    name = f"{normal_name(distribution)}-{version}"
    # Folders of releases appear whole, so a finished one can be read without the lock.
    stored = _stored(cache_dir() / "wheels" / name)
    if stored is None:
        with locked_folder("wheels") as folder:
            stored = _stored(folder / name) or _download(distribution, version, folder / name)
    wheel, digest = stored
    return WheelTree(wheel, distribution=distribution, kind="release", sha256=digest, notes=notes)


def stored_releases(distribution: str) -> list[SourceTree]:
    """The releases that were fetched before, by name; nothing is fetched, and one that cannot be read is no
    release."""
    found: list[SourceTree] = []
    start = f"{normal_name(distribution)}-"
    for place in sorted((cache_dir() / "wheels").glob(f"{start}*")):
        try:
            if _VERSION.fullmatch(place.name[len(start) :]) and (stored := _stored(place)):
                wheel, digest = stored
                found.append(WheelTree(wheel, distribution=distribution, kind="release", sha256=digest))
        except UserError:
            continue
    return found


def checked_version(version: str) -> str:
    """The version without a leading ``v``; ``UserError`` T015 if it is none."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise UserError(
            "T015", f"{version!r} is not a release version", hints=["--release 0.5.14", "--commit REV"]
        )
    return match[1].lower()


def _stored(place: Path) -> tuple[Path, str] | None:
    """The wheel of an earlier download and its sha256, if that is still the one noted then."""
    wheels = sorted(place.glob("*.whl"))
    if len(wheels) != 1:
        return None
    try:
        noted = wheels[0].with_suffix(".sha256").read_text().split()[0]
        return (wheels[0], noted) if noted == _sha256(wheels[0]) else None
    except (OSError, IndexError):
        return None


def _download(distribution: str, version: str, place: Path) -> tuple[Path, str]:
    temporary = place.with_name(f".{place.name}.tmp")
    try:
        shutil.rmtree(temporary, ignore_errors=True)  # left by a run that was killed; we hold the lock
        temporary.mkdir()
        _pip_download(distribution, version, temporary)
        wheels = sorted(temporary.glob("*.whl"))
        if len(wheels) != 1:
            raise UserError("T009", f"pip left no wheel of {distribution} {version}", hints=["--wheel FILE"])
        WheelTree(wheels[0], distribution=distribution).close()  # refuse it before it is kept
        digest = _sha256(wheels[0])
        write_whole(wheels[0].with_suffix(".sha256"), f"{digest}  {wheels[0].name}\n".encode())
        shutil.rmtree(place, ignore_errors=True)
        os.replace(temporary, place)
        return place / wheels[0].name, digest
    except OSError as error:
        raise cache_trouble(error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _pip_download(distribution: str, version: str, into: Path) -> None:
    """Have pip fetch one wheel into an empty folder."""
    requirement = f"{distribution}=={version}"
    code, words = _pip(requirement, into, *_FIRST_CHOICE)
    if code == 0:
        return
    for python, abi, platform in _other_builds(words, distribution, version):
        code, again = _pip(requirement, into, python, abi, (platform,))
        if code == 0:
            return
        words += again
    raise _pip_error(words, distribution, version)


def _pip(requirement: str, into: Path, python: str, abi: str, platforms: Sequence[str]) -> tuple[int, str]:
    argv = [sys.executable, "-m", "pip", "download", "-vv", "--no-deps", "--only-binary=:all:"]
    argv += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--dest", str(into)]
    argv += ["--implementation", "cp", "--python-version", python, "--abi", abi]
    for platform in platforms:
        argv += ["--platform", platform]
    # `-m` looks for pip in the current folder first: that must not be the audited one.
    child = subprocess.Popen(
        [*argv, requirement],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=into,
        env={**os.environ, "LC_ALL": "C", "TMPDIR": str(into)},  # what pip leaves when it is ended goes too
    )
    try:
        out, _ = child.communicate()
    except BaseException:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise
    return child.returncode, out.decode("utf-8", "replace")


def _other_builds(words: str, distribution: str, version: str) -> list[tuple[str, str, str]]:
    """(python, abi, platform) of the wheels of this version that pip saw and skipped, best known first."""
    name = re.escape(normal_name(distribution)).replace(r"\-", "[-_.]+")
    found = set()
    for python, abi, platform in re.findall(
        rf"\b{name}-{re.escape(version)}(?:-\d\w*)?-(\w+)-(\w+)-([\w.]+)\.whl", words, re.IGNORECASE
    ):
        if re.fullmatch(r"cp3\d+", python):
            found.add((python[2:], abi, platform.split(".")[0]))
    return sorted(found, key=lambda build: ("linux" not in build[2], "x86" not in build[2], build))[:4]


def _pip_error(words: str, distribution: str, version: str) -> UserError:
    low = words.lower()
    if "no module named pip" in low:
        return UserError(
            "T009",
            "this Python has no pip to download a release with",
            hints=[f"{Path(sys.executable).name} -m ensurepip", "--wheel FILE reads a wheel you downloaded"],
        )
    if "no space left" in low:
        return UserError("T014", "no space left on the disk for the download", hints=["audit cache clear"])
    offered = re.findall(r"from versions: ([^)]*)\)", words)
    known = [v for v in (offered[0].split(", ") if offered else []) if v and v != "none"]
    if not known:
        for mark in (
            "name resolution",
            "failed to establish",
            "connection refused",
            "timed out",
            "proxyerror",
        ):
            if mark in low:
                return UserError(
                    "T010",
                    f"cannot reach the package index for {distribution} {version}",
                    hints=["work offline with --wheel FILE, --path CLONE or --installed"],
                )
        last = [line for line in words.split("\n") if line.startswith("ERROR: ") and line[7:].strip()]
        fact = last[-1][len("ERROR: ") :] if last else f"the index knows no wheel of {distribution}"
        return UserError("T009", fact, hints=["--wheel FILE reads a wheel you downloaded"])
    near = [v for v in known if v.split(".")[:2] == version.split(".")[:2]] or known
    return UserError(
        "T009",
        f"the index has no wheel of {distribution} {version}; the last ones are {', '.join(near[-5:])}",
        hints=[f"--release {near[-1]}"],
    )


def _sha256(path: Path) -> str:
    import hashlib

    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
