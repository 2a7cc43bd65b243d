"""What several tests of audits share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import auditor.gates.audit as audit_module
from auditor.trees.base import SourceTree

# A machine at work is no fault of an example. What a test asks for itself goes before.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one with each real evaluation."""
    seen: list[str] = []
    real = audit_module.audit

    def counted(tree: SourceTree, *rest: Any, **more: Any) -> Any:
        seen.append(tree.info().content_id)
        return real(tree, *rest, **more)

    monkeypatch.setattr(audit_module, "audit", counted)
    return seen
