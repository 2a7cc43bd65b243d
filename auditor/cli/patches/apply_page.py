"""How ``patches apply`` says what it planned and wrote, on one target or on several."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auditor.patching.planning.model import Plan, Plans
    from auditor.patching.proof.verify import Checks
    from auditor.patching.sets.patchset import Patchset
    from auditor.patching.write.operations import Written
    from auditor.patching.write.target import Target


class Page:
    """The answer of one run; ``targets`` are those of the plans, in their order."""

    def __init__(
        self, patchset: Patchset, plans: Plans, targets: list[Target], form: str, color: bool, quiet: bool
    ) -> None:
        self.patchset = patchset
        self.plans = plans
        self.targets = targets
        self.form = form
        self.color = color
        self.quiet = quiet

    def show(self, checks: list[Checks], written: list[Written]) -> None:
        """Print it. ``checks`` and ``written`` go with the plans, or are empty."""
        from auditor.cli.output import write_bytes
        from auditor.cli.patches.page import envelope

        if self.form == "json":
            rows = [self._facts(at, plan, checks, written) for at, plan in enumerate(self.plans.plans)]
            facts = rows[0] if len(rows) == 1 else {"patchset": self.patchset.name, "written": bool(written)}
            if len(rows) > 1:
                facts["upstreams"] = [
                    {"upstream": plan.profile.name, **row}
                    for plan, row in zip(self.plans.plans, rows, strict=True)
                ]
            write_bytes(envelope("apply", **facts), None)
            return
        text = "\n".join(self._lines(checks, written)) + "\n"
        write_bytes(text.encode("utf-8", "backslashreplace"), None)

    def _facts(self, at: int, plan: Plan, checks: list[Checks], written: list[Written]) -> dict[str, Any]:
        from auditor.cli.patches.page import plan_json

        return plan_json(plan) | {
            "written": bool(written),
            "result": written[at].result if written else None,
            "commits": list(written[at].commits) if written else [],
            "checks": checks[at].as_json() if checks else None,
        }

    def _lines(self, checks: list[Checks], written: list[Written]) -> list[str]:
        from auditor.cli.patches.page import counted, legend, table

        lines = []
        many = len(self.plans.plans) > 1
        for at, plan in enumerate(self.plans.plans):
            if many and at:
                lines.append("")
            if not self.quiet or many:
                head = f"{plan.patchset.name} on {plan.profile.name} {plan.tree.info().label}"
                lines.append(f"{head}      {counted(plan.counts())}")
            lines += table(plan.entries, self.color)
            lines += _links(plan, self.targets[at])
            if checks:
                lines += checks[at].lines(verbose=not self.quiet)
            if written and not many:
                lines += self._written(at, written[at])
        if written and many:
            lines += ["", f"written to {len(written)} targets in one transaction"]
            for at, each in enumerate(written):
                lines += self._written(at, each)
        if not written:
            lines.append("nothing was written")
        if not self.quiet:
            lines.append(legend(entry.outcome.status for entry in self.plans.entries))
            lines += self._next(bool(written))
        return lines

    def _written(self, at: int, written: Written) -> list[str]:
        plan, target = self.plans.plans[at], self.targets[at]
        many = f"{plan.profile.name}: " if len(self.plans.plans) > 1 else ""
        files = len(plan.files)
        lines = [
            f"{many}written and read back: {files} file{'s' if files != 1 else ''}, tree {written.result}"
        ]
        lines += [f"  commit {oid}" for oid in written.commits]
        compiled = target.never_checked(plan.files)
        if compiled:
            lines.append(f"note: Python takes {compiled[0]} without a look at its source; remove it:")
            lines.append(f"  rm {' '.join(shlex.quote(str(target.root / name)) for name in compiled)}")
        return lines

    def _next(self, written: bool) -> list[str]:
        lines = []
        for entry in self.plans.failed[:1]:
            target = next(
                t for t, p in zip(self.targets, self.plans.plans, strict=True) if entry in p.entries
            )
            at = f" {target.option}" if target.shown != "." else ""
            lines.append(f"next: patches explain {self.patchset.typed} {entry.name}{at}")
        if self.plans.doubtful and not self.plans.failed and not written:
            lines.append("next: look at the marked hunks, then --allow-look")
        return lines


def _links(plan: Plan, target: Target) -> list[str]:
    """What to say of links that a patch which does not go leads through."""
    from auditor.patching.mapping import PathMap

    names = PathMap(plan.profile, plan.tree.blobs())
    asked = [names.path(hunk.path) for entry in plan.failed for hunk in entry.outcome.hunks]
    return [
        f"note: {link} is a symbolic link here; what lies behind it is not part of "
        "the target: it is not in the tree and is never written"
        for link in target.links_above(path for path in asked if path)
    ]
