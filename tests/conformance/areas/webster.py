"""Dividing replicas by weight."""

from __future__ import annotations

from typing import Any

from controlplane.scheduling.webster import dispense

Document = dict[str, Any]


def run(given: Document) -> dict[str, int]:
    return dispense(
        given["replicas"],
        _by_name(given["weights"]),
        initial=_by_name(given["initial"]),
        uid=given["uid"],
    )


def agree(expect: Document, result: dict[str, int]) -> bool:
    return _by_name(expect["result"]) == result


def _by_name(targets: list[Document] | None) -> dict[str, int]:
    return {target["name"]: target.get("replicas", 0) for target in targets or ()}
