"""The only module that starts ``git``: the environment of its children, and what they say.

No repository variable, hook, filter, pager or diff driver has a part, and no transport is allowed unless a
caller asks for the network.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

from auditor.errors import UserError

#: Requests in flight to ``cat-file``. All of them (41 bytes each; 65 with sha256) fit the smallest pipe
#: buffer there is (16 KiB on macOS), so that writing never blocks while git waits for us to read.
IN_FLIGHT = 240
#: ``GIT_*`` variables that survive: where git is installed, which configuration the user chose.
_KEPT = {"GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_TEMPLATE_DIR"}
#: And how to reach a remote, kept only when the network is allowed.
_KEPT_FOR_NETWORK = {
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_ASKPASS",
    "GIT_PROXY_COMMAND",
    "GIT_PROXY_SSL_CERT",
    "GIT_PROXY_SSL_KEY",
    "GIT_PROXY_SSL_CAINFO",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_CERT",
    "GIT_SSL_KEY",
    "GIT_SSL_NO_VERIFY",
    "GIT_HTTP_PROXY_AUTHMETHOD",
}
_OVERRIDES = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "core.pager=cat",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "advice.objectNameWarning=false",
)


def git_environment(*, network: bool = False) -> dict[str, str]:
    """The environment for a git child: no repository variables, no prompts, no locks, English messages."""
    kept = _KEPT | _KEPT_FOR_NETWORK if network else _KEPT
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") or k in kept}
    env.update(
        GIT_OPTIONAL_LOCKS="0",
        GIT_TERMINAL_PROMPT="0",
        GIT_NO_REPLACE_OBJECTS="1",
        LC_ALL="C",
        LANGUAGE="C",
    )
    if network:
        # No `ext::` and no helper of the repository's choosing.
        env["GIT_ALLOW_PROTOCOL"] = "https:http:ssh:git:file"
    else:
        # GIT_NO_LAZY_FETCH is known since git 2.45; before, refusing every transport has the same effect.
        env["GIT_NO_LAZY_FETCH"] = "1"
        env["GIT_ALLOW_PROTOCOL"] = "none"
    return env


def run_git(
    args: Sequence[str],
    *,
    stdin: bytes | None = None,
    network: bool = False,
    cwd: str | None = None,
    index: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run git to its end and return what it said; never raises for its exit status.

    ``index`` is an index file instead of the repository's own.

    A child that is interrupted gets the time to remove its temporary files. Raises ``UserError`` T013
    when there is no git.
    """
    argv = ["git", *_OVERRIDES, *args]
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=git_environment(network=network) | ({"GIT_INDEX_FILE": str(index)} if index else {}),
            cwd=cwd,
        )
    except FileNotFoundError:
        raise _no_git() from None
    except OSError as error:
        raise UserError("T013", f"git cannot be started: {error.strerror or error}") from None
    try:
        out, err = child.communicate(stdin)
    except BaseException:
        _stop(child)
        raise
    return subprocess.CompletedProcess(argv, child.returncode, out, err)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End a child, gently first: git removes its lock and pack files on SIGTERM."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                pass


def _no_git() -> UserError:
    return UserError("T013", "git is not installed, or not on PATH", hints=["install git 2.30 or later"])


class Batch:
    """A ``git cat-file --batch`` child."""

    def __init__(self, git_dir: Path, network: bool) -> None:
        try:
            self._child = subprocess.Popen(
                ["git", *_OVERRIDES, f"--git-dir={git_dir}", "cat-file", "--batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=git_environment(network=network),
                bufsize=1 << 18,
            )
        except FileNotFoundError:
            raise _no_git() from None
        self._in = cast(BinaryIO, self._child.stdin)
        self._out = cast(BinaryIO, self._child.stdout)

    def ask(self, names: Sequence[bytes]) -> None:
        """Send requests; at most ``IN_FLIGHT`` may be unanswered at any time."""
        try:
            self._in.write(b"\n".join(names) + b"\n")
            self._in.flush()
        except BrokenPipeError:
            pass  # the answer that is missing says what happened

    def answer(self) -> tuple[bytes, bytes, bytes]:
        """The next answer as (id, type, content); (name, b"missing" or b"ambiguous", b"") otherwise.

        ``(b"", b"ended", b"")`` when git died.
        """
        if self._out.closed:
            return b"", b"ended", b""
        header = self._out.readline()
        if not header.endswith(b"\n"):
            return b"", b"ended", b""
        parts = header[:-1].rsplit(b" ", 2)
        if len(parts) == 3 and parts[2].isdigit():
            if len(parts[2]) > 12:  # no object has as many bytes
                return b"", b"ended", b""
            size = int(parts[2])
            content = self._out.read(size)
            if len(content) != size or self._out.read(1) != b"\n":
                return b"", b"ended", b""
            return parts[0], parts[1], content
        name, _, word = header[:-1].rpartition(b" ")
        return name, word, b""

    def close(self) -> None:
        self._child.kill()
        for pipe in (self._in, self._out):
            try:
                pipe.close()
            except OSError:
                pass
        self._child.wait()


def network_error(stderr: bytes, remote: str) -> UserError:
    """What went wrong while talking to a remote, told from git's own words."""
    words = first_words(stderr)
    low = stderr.lower()
    if b"no space left" in low:
        return UserError("T014", "no space left on the disk while fetching", hints=["audit cache clear"])
    if b"could not resolve host" in low or b"network is unreachable" in low or b"timed out" in low:
        fact = f"cannot reach {remote}: {words}"
    else:
        fact = f"fetching from {remote} failed: {words}"
    return UserError(
        "T010",
        fact,
        hints=["work offline with --path CLONE, --wheel FILE or --installed"],
    )


def first_words(stderr: bytes) -> str:
    """The line of git's standard error that says most."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    for line in lines:
        for mark in ("fatal: ", "error: "):
            if line.startswith(mark):
                return line[len(mark) :]
    return lines[-1] if lines else "no message"
