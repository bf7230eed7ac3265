"""Aggregated ClusterRoles: their rules are those of all ClusterRoles that their selectors match."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from controlplane.apimachinery.selectors import LabelSelector

Document = dict[str, Any]


def aggregated_rules(role: Document, roles: Iterable[Document]) -> list[Document] | None:
    """Return the rules that an aggregated ClusterRole has to have. None: the role is not aggregated.

    The rules of the matching roles follow each other in order of the roles' names, each rule once.
    """
    aggregation = role.get("aggregationRule")
    if not aggregation:
        return None
    selectors = [_selector(item) for item in aggregation.get("clusterRoleSelectors") or ()]
    rules: list[Document] = []
    for other in sorted(roles, key=lambda item: str(item["metadata"]["name"])):
        if other["metadata"]["name"] == role["metadata"]["name"]:
            continue
        labels = other["metadata"].get("labels") or {}
        if any(selector is not None and selector.matches(labels) for selector in selectors):
            rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules


def _selector(document: Any) -> LabelSelector | None:
    """Return a selector; None: it is not valid, and matches nothing."""
    try:
        return msgspec.convert(document, LabelSelector)
    except msgspec.ValidationError:
        return None
