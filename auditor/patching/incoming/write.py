"""Puts new patches on disk: a new patchset, or more patches at the end of one. Whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from auditor.errors import UserError
from auditor.patching.diffs.write import write_patch
from auditor.patching.incoming.patches import Incoming, unique_name
from auditor.patching.sets.patchset import check_name, load_outline

_SCHEMA = "# yaml-language-server: $schema=../../reports/schema/patchset-1.json\n"


def quoted(text: str) -> str:
    """Text as a YAML scalar of one line."""
    text = " ".join(text.split())
    plain = re.fullmatch(r"[A-Za-z0-9/][^:#'\"\\\[\]{}&*!|>%@`,]*", text)
    if (
        plain
        and text.lower() not in ("true", "false", "null", "yes", "no")
        and not re.fullmatch(r"[\d.]+", text)
    ):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def patchset_text(
    title: str, upstreams: Mapping[str, tuple[str, str]], order: Sequence[str], allow: Sequence[str] = ()
) -> str:
    """``patchset.yaml``. ``upstreams``: name -> (url, versions)."""
    lines = [f"title: {quoted(title)}", "upstreams:"]
    for name, (url, versions) in upstreams.items():
        lines.append(f"  {name}:")
        lines.append(f"    url: {quoted(url)}" if url else f"    versions: {quoted(versions)}")
        if url and versions:
            lines.append(f"    versions: {quoted(versions)}")
        if not url and not versions:
            lines[-2:] = [f"  {name}: {{}}"]
    lines.append("# Applied from top to bottom." if order else "# Applied from top to bottom; none yet.")
    lines += ["order:", *(f"  - {name}" for name in order)] if order else ["order: []"]
    if allow:
        lines += ["policy:", f"  allow: [{', '.join(allow)}]"]
    return _SCHEMA + "\n".join(lines) + "\n"


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """A new folder with these files, whole or not at all. UserError P034 where it exists or cannot be."""
    shown = f"patchsets/{folder.name}"
    if folder.exists() or folder.is_symlink():
        raise UserError(
            "P034", "there is such a patchset already", place=shown, hints=[f"patches show {folder.name}"]
        )
    made = not folder.parent.exists()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise UserError("P034", f"cannot be written: {error.strerror or error}", place=shown) from None
    try:
        for name, data in files.items():
            path = staged / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (staged / "patches").mkdir(exist_ok=True)
        staged.chmod(0o777 & ~_umask())
        os.rename(staged, folder)
    except OSError as error:
        raise UserError("P034", f"cannot be written: {error.strerror or error}", place=shown) from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        if made:
            with contextlib.suppress(OSError):
                folder.parent.rmdir()  # only if it stayed empty


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def append_patches(folder: Path, patches: Mapping[str, bytes]) -> None:
    """Adds files below ``patches/`` and their names to the order; the order is written last, at once.

    Names are those of files (``x.patch``). UserError P034 where one exists or the disk refuses.
    """
    outline = load_outline(folder)
    place = outline.place
    names = [name.rpartition(".")[0] for name in patches]
    for name in names:
        if name in outline.file.order:
            raise UserError("P034", f"there is a patch {name} already", place=f"{place}/patchset.yaml")
    path = folder / "patchset.yaml"
    text = with_order(path.read_text(encoding="utf-8"), names, f"{place}/patchset.yaml")
    written: list[Path] = []
    staged = path.with_name(".patchset.yaml.tmp")
    try:
        (folder / "patches").mkdir(exist_ok=True)
        for name, data in patches.items():
            target = folder / "patches" / name
            with target.open("xb") as handle:
                written.append(target)
                handle.write(data)
        staged.write_text(text, encoding="utf-8", newline="\n")
        os.replace(staged, path)
    except BaseException as error:
        for each in [*written, staged]:
            with contextlib.suppress(OSError):
                each.unlink()
        if isinstance(error, FileExistsError):
            where = f"{place}/patches/{Path(error.filename or '').name}"
            raise UserError("P034", "there is such a file already", place=where) from None
        if isinstance(error, OSError):
            fact = f"cannot be written: {error.strerror or error}"
            raise UserError("P034", fact, place=place) from None
        raise


def with_order(text: str, names: Sequence[str], place: str) -> str:
    """``patchset.yaml`` with more names at the end of its order; every other byte stays. UserError P034."""
    lines = text.split("\n")
    at = next((n for n, line in enumerate(lines) if re.match(r"order\s*:", line)), None)
    if at is None:
        raise UserError("P034", "no `order:` at the start of a line", place=place)
    rest = lines[at].partition(":")[2].strip()
    flow = re.fullmatch(r"\[(.*)\]\s*(#.*)?", rest)
    if flow:
        words = [word.strip() for word in flow[1].split(",") if word.strip()]
        lines[at : at + 1] = ["order:", *(f"  - {word}" for word in [*words, *names])]
        return "\n".join(lines)
    if rest and not rest.startswith("#"):
        raise UserError(
            "P034", "the order is written in a way that cannot be added to", place=f"{place}:{at + 1}"
        )
    end, indent = at + 1, "  "
    for number in range(at + 1, len(lines)):
        match = re.match(r"(\s*)- ", lines[number])
        if match:
            end, indent = number + 1, match[1]
        elif lines[number].strip() and not lines[number].lstrip().startswith("#"):
            break
    lines[end:end] = [f"{indent}- {name}" for name in names]
    return "\n".join(lines)


def write_imported(
    folder: Path,
    patches: Sequence[Incoming],
    *,
    title: str,
    upstreams: Mapping[str, tuple[str, str]],
    allow: Sequence[str] = (),
    append: bool = False,
) -> list[str]:
    """Writes the patches and returns their names as they are in the patchset. UserError P026, P034."""
    if not check_name(folder.name):
        raise UserError(
            "P026", "a patchset is named in lower-case letters, digits, `-`, `_` and `.`", place=folder.name
        )
    taken: list[str] = []
    if append:
        outline = load_outline(folder)
        taken = list(outline.file.order)
        missing = sorted(set(allow) - set(outline.file.policy.allow))
        if missing:
            raise outline.document.error(
                f"the policy of the patchset does not allow {', '.join(missing)}",
                code="P034",
                hints=(f"write `policy: {{allow: [{', '.join(missing)}]}}` into patchset.yaml",),
            )
    files: dict[str, bytes] = {}
    names: list[str] = []
    for patch in patches:
        name = unique_name(patch.name, [*taken, *names])
        names.append(name)
        files[f"{name}.patch"] = write_patch(patch.changes)
    if append:
        append_patches(folder, files)
        return names
    whole = {f"patches/{name}": data for name, data in files.items()}
    text = patchset_text(title, upstreams, names, allow)
    write_folder(folder, {"patchset.yaml": text.encode(), **whole})
    return names
