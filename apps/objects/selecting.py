"""SQL conditions by which stored objects are selected: their place, their labels, and the fields that have columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.objects.arrays import texts
from controlplane.apimachinery.selectors import FieldSelectorTerm, LabelSelector

START = ("", "")
LABELS_OF_OLD = """
                 CROSS JOIN LATERAL (
                    SELECT coalesce(array_agg(key) || array_agg(key || '=' || value), '{}') AS labels
                    FROM json_each_text(replace(old_doc, '\\u0000', '\\u0020')::json -> 'metadata' -> 'labels')
                 ) stated"""
"""Joins the column `labels` of the document `old_doc`, as tables of objects have it. Of a NULL it is empty.

PostgreSQL takes no NUL apart from other text of a document: no label has one.
"""


def place_conditions(kind: str, namespace: str, after: tuple[str, str]) -> tuple[list[str], list[Any]]:
    """Return SQL conditions, and their values, for objects of a kind in a namespace ("": all) behind a position."""
    conditions, params = ["kind = %s"], [kind]
    if namespace:
        conditions.append("namespace = %s")
        params.append(namespace)
    if after != START:
        conditions.append("(namespace, name) > (%s, %s)")
        params.extend(after)
    return conditions, params


def label_conditions(selector: LabelSelector) -> Sequence[tuple[str, Any]]:
    """Return SQL conditions, with their values, on the column `labels`, which has "key=value" and "key" of each label.

    Of Gt and Lt only the existence of the key is checked here. The caller compares the values.
    """
    conditions: list[tuple[str, Any]] = []
    if selector.match_labels:
        conditions.append(("labels @> %s", texts([f"{key}={value}" for key, value in selector.match_labels.items()])))
    for term in selector.match_expressions:
        pairs = texts([f"{term.key}={value}" for value in term.values])
        match term.operator:
            case "In":
                conditions.append(("labels && %s", pairs))
            case "NotIn":
                conditions.append(("NOT labels && %s", pairs))
            case "Exists" | "Gt" | "Lt":
                conditions.append(("labels @> %s", texts([term.key])))
            case "DoesNotExist":
                conditions.append(("NOT labels @> %s", texts([term.key])))
    return conditions


def any_labels(selectors: Sequence[LabelSelector]) -> tuple[str, list[Any]]:
    """Return the SQL condition that one of some selectors is met, as far as `label_conditions` says it, and its
    values."""
    parts: list[str] = []
    values: list[Any] = []
    for selector in selectors:
        conditions = label_conditions(selector)
        parts.append(" AND ".join([condition for condition, _ in conditions]) or "true")
        values += [value for _, value in conditions]
    return f"({' OR '.join(f'({part})' for part in parts)})", values


_COLUMNS = {"metadata.name": "name", "metadata.namespace": "namespace"}


def field_conditions(terms: Sequence[FieldSelectorTerm]) -> Sequence[tuple[str, Any]]:
    """Return SQL conditions, with their values, for the terms of metadata.name and metadata.namespace."""
    return [
        (f"{_COLUMNS[term.field]} {'=' if term.equal else '<>'} %s", term.value)
        for term in terms
        if term.field in _COLUMNS
    ]
