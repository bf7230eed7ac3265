"""Documents with very many errors, or very long lists: what they cost grows with their length, and not with its square.

A body may have 3 MiB, and the thread that checks it cannot be ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.admission.admit import MOST_UNDECODED, _independent
from controlplane.apimachinery.errors import Cause
from controlplane.wire.managed_fields import differ_in_times_only
from tests.builders import documents
from tests.builders.documents import Document
from tests.core.admitted import created, refused, updated

SECONDS = 4.0  # of this thread; in which each of these took ten and more when it compared all with all
CLUSTER = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "member1"}}


def pod(**spec: Any) -> Document:
    one = {"name": "web", "image": "web"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [one], **spec}}


def errors_of_two_sorts() -> None:
    numbers = {f"number{place}": place for place in range(15_000)}
    keys = {f"!{place}": "text" for place in range(15_000)}
    assert len(refused(documents.config_map("a") | {"data": {**numbers, **keys}})) == 30_000


def refused_volumes() -> None:
    assert len(refused(pod(volumes=[{"name": f"!{place}"} for place in range(20_000)]))) == 20_000


def tolerations_of_an_edited_pod() -> None:
    listed = [{"key": f"key{place}", "operator": "Exists"} for place in range(40_000)]
    more = [*listed, {"key": "more", "operator": "Exists"}]
    updated(pod(tolerations=more), created(pod(tolerations=listed)).object)


def reported_conditions() -> None:
    stored = created({**CLUSTER, "spec": {"syncMode": "Pull"}}).object
    conditions = [{"type": f"Type{place}", "status": "True", "reason": "Why"} for place in range(30_000)]
    updated({**CLUSTER, "status": {"conditions": conditions}}, stored, subresource="status")


def managers_of_an_applied_object() -> None:
    """An object may have any number of managers, which its author writes; each apply compares them."""
    managers = [{"manager": f"manager{place}", "operation": "Apply", "time": "a"} for place in range(30_000)]
    assert differ_in_times_only(managers, [{**entry, "time": "b"} for entry in managers])
    assert not differ_in_times_only(managers, [*managers[:-1], {**managers[-1], "operation": "Update"}])


def times_that_are_none() -> None:
    taints = [{"key": f"key{place}", "effect": "NoExecute", "timeAdded": "soon"} for place in range(20_000)]
    causes = refused({**CLUSTER, "spec": {"syncMode": "Pull", "taints": taints}})
    assert {cause.field for cause in causes} == {f"spec.taints[{place}].timeAdded" for place in range(MOST_UNDECODED)}


@pytest.mark.parametrize(
    "check",
    [
        *(errors_of_two_sorts, refused_volumes, tolerations_of_an_edited_pod, reported_conditions),
        *(managers_of_an_applied_object, times_that_are_none),
    ],
    ids=lambda check: check.__name__.replace("_", "-"),
)
def test_a_long_document_is_checked_in_linear_time(check: Callable[[], None]) -> None:
    begun = time.thread_time()

    check()

    assert time.thread_time() - begun < SECONDS


PATHS = st.lists(st.sampled_from(["a", "b", "a-", "a.", ".", ".a", ".b", "[0]", "[1]", "["]), max_size=4).map("".join)
CAUSES = st.lists(st.builds(Cause, st.sampled_from(["FieldValueInvalid", "FieldValueDuplicate"]), st.just(""), PATHS))


@given(causes=CAUSES, known=CAUSES)
def test_a_cause_beside_known_ones_is_independent_of_them(causes: list[Cause], known: list[Cause]) -> None:
    """The sorted fields give the answer that comparing each cause with each known one gives."""

    def within(field: str, outer: str) -> bool:
        return field.startswith(outer) and field[len(outer) :][:1] in ("", ".", "[")

    def follows(cause: Cause, other: Cause) -> bool:
        is_around = within(other.field, cause.field) and cause.reason != "FieldValueDuplicate"
        return within(cause.field, other.field) or is_around

    assert _independent(causes, known) == [
        cause for cause in causes if not any(follows(cause, other) for other in known)
    ]
