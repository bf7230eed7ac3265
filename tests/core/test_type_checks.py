"""Warnings about expressions that do not fit the types of kinds are those of Kubernetes (tests/admission)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.apimachinery.meta import kind_key
from controlplane.kind import KINDS
from controlplane.kinds.template.admission_expressions import expressions_of
from controlplane.kinds.template.admission_kinds import POLICY
from controlplane.wire.cel.kind_nodes import kind_node, kinds_named
from controlplane.wire.cel.type_checks import type_warnings
from tests.admission.__main__ import ANSWERS
from tests.admission.typed_cases import TYPED

RECORDED = json.loads(ANSWERS.read_text())["typed"]
REFUSED = {21}
DIFFERENT = {
    14: "a kube-apiserver does not know maps of quantities, and warns of limits, which exist",
    39: "its tenth kind is events.k8s.io/v1 Event, which it finds for the core group",
    49: "it names types by a number",
    50: "as 14",
}


def ours(stated: Any) -> list[dict[str, str]]:
    written = expressions_of(POLICY, {"spec": stated})
    kinds = []
    for group, version, plural in kinds_named(stated["matchConstraints"]):
        kind = KINDS.served(group, version, plural)
        if kind is not None:
            kinds.append((f"{group}/{version}, Kind={kind.resource.kind}", kind_node(kind.schema())))
    params = stated.get("paramKind")
    known = KINDS.get(kind_key(params["apiVersion"], params["kind"])) if params else None
    return type_warnings(
        [one for one in written.expressions if one[0].startswith("spec.validations")],
        written.variables,
        kinds=sorted(kinds, key=lambda one: one[0]),
        params=kind_node(known.schema()) if known else None,
        has_params=written.params,
        begins=lambda field, text: None,
    )


@pytest.mark.parametrize("case", [one for one in range(len(TYPED)) if one not in REFUSED | DIFFERENT.keys()])
def test_warnings_about_types_are_those_of_kubernetes(case: int) -> None:
    assert ours(TYPED[case]) == RECORDED[case]


def test_a_field_that_exists_is_not_warned_of() -> None:
    assert ours(TYPED[14]) == ours(TYPED[50]) == []
    assert RECORDED[14]
