"""Lists of patches: quilt's series, JSON, Dockerfiles."""

from __future__ import annotations

from auditor.errors import UserError
from auditor.patching.incoming.lists import files_of, read_dockerfile, read_json, read_series
from tests.fuzz import engine

WORDS = (
    b"RUN ", b"COPY ", b"ADD ", b"FROM x\n", b"git apply ", b"patch -p1 < ", b"&& ", b"\\\n", b"<<EOF\n", b"EOF\n", b"WORKDIR /x\n",
    b"ARG A=1\n", b"ENV A=$A ", b"${A:-b}", b"--directory=", b"-p9999999999", b" -R", b"# ", b'{"patches": [', b'{"file": "a.patch", ',
    b'"strip": 1,', b"null", b"[[[[", b'["', b"*.patch", b"; do ", b"done", b"../", b"for p in ",
)  # fmt: skip
SEEDS = (
    b"# stack\n0001-a.patch -p1\nsub/b.patch -p0 # why\n-R c.patch\n",
    b'{"patches": [{"file": "a.patch", "strip": 1, "exclude": ["tests/*"]}, "b.patch"]}',
    b"FROM base:1\nARG SRC=/sgl\nWORKDIR ${SRC}\nCOPY patches/ /opt/p/\nRUN git apply -p2 /opt/p/a.patch && \\\n  cd /x && "
    b'for p in /opt/p/*.patch; do patch -p1 < $p; done\nRUN <<EOF\ngit -C /x apply --directory=python /opt/p/b.patch\nEOF\nRUN ["git", "apply", "a.patch"]\n',
)


def one_input(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape" if data[:1] == b"#" else "replace")
    folder = engine.place() / "lists"
    folder.mkdir(exist_ok=True)
    for reader in (read_series, read_json, read_dockerfile):
        try:
            listing = reader(text, "in")
            files_of(listing, folder, "in", reader is read_dockerfile)
        except UserError:
            continue
