"""The annotation of kubectl apply says what kubectl applied last, also server-side."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.admission.last_applied import LAST_APPLIED, with_last_applied

Document = dict[str, Any]
APPLIED: Document = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"b": "c"}}
TEXT = '{"apiVersion":"v1","data":{"b":"c"},"kind":"ConfigMap","metadata":{"name":"a"}}\n'


def stored(**annotations: str) -> Document:
    return {"metadata": {"name": "a", "uid": "u", "annotations": annotations}, "data": {"b": "c"}}


def test_it_says_what_was_applied_without_itself() -> None:
    applied = {**APPLIED, "metadata": {"name": "a", "annotations": {LAST_APPLIED: "older", "x": "y"}}}

    made = with_last_applied(stored(**{LAST_APPLIED: "old", "x": "y"}), APPLIED, manager="kubectl")
    annotated = with_last_applied(stored(**{LAST_APPLIED: "old"}), applied, manager="kubectl")

    assert made["metadata"] == {"name": "a", "uid": "u", "annotations": {LAST_APPLIED: TEXT, "x": "y"}}
    assert annotated["metadata"]["annotations"][LAST_APPLIED].endswith('"annotations":{"x":"y"},"name":"a"}}\n')


@pytest.mark.parametrize(
    ("document", "manager"),
    [
        (stored(), "kubectl"),
        (stored(**{LAST_APPLIED: ""}), "kubectl"),
        (stored(**{LAST_APPLIED: "old"}), "argocd"),
        (stored(**{LAST_APPLIED: TEXT}), "kubectl"),
        ({"metadata": {"name": "a"}}, "kubectl"),
    ],
)
def test_an_object_stays_the_same_without_it_or_for_another_manager(document: Document, manager: str) -> None:
    assert with_last_applied(document, APPLIED, manager=manager) is document


def test_it_is_removed_where_it_has_no_room() -> None:
    large = {**APPLIED, "data": {"b": "c" * 300_000}}

    made = with_last_applied(stored(**{LAST_APPLIED: "old", "x": "y"}), large, manager="kubectl")

    assert made["metadata"]["annotations"] == {"x": "y"}
