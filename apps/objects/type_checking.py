"""The status of admission policies: which of their expressions do not fit the kinds that they concern."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from apps.objects.cel_pool import Ended, for_definitions
from controlplane.kind import KINDS, Kind
from controlplane.kinds.template import Template
from controlplane.kinds.template.admission_expressions import expressions_of
from controlplane.kinds.template.admission_kinds import POLICY
from controlplane.wire.cel.kind_nodes import Node, kind_node, kinds_named

MAX_KINDS: Final = 10  # of a policy, as in Kubernetes


def with_type_checks(kind: Kind, new: Any, old: Any) -> Any:
    """Return a policy with the warnings about its expressions in its status; another object as it is.

    They are found when the spec is written. A check that needs more time than it may have warns of nothing.
    """
    if kind.key != POLICY or not isinstance(new, Template) or (old is not None and old.spec == new.spec):
        return new
    warnings = _warnings(new)
    checking = {"expressionWarnings": warnings} if warnings else {}
    status = {**new.status, "observedGeneration": new.metadata.generation, "typeChecking": checking}
    return replace(new, status=status)


def _warnings(policy: Template) -> list[dict[str, str]]:
    written = expressions_of(POLICY, {"spec": policy.spec})
    kinds = []
    for group, version, plural in kinds_named(policy.spec.get("matchConstraints") or {}):
        found = KINDS.served(group, version, plural)
        if found is not None:
            kinds.append((f"{group}/{version}, Kind={found.resource.kind}", kind_node(found.schema())))
    asked = {
        "expressions": [one for one in written.expressions if one[0].startswith("spec.validations")],
        "variables": written.variables,
        "kinds": sorted(kinds, key=lambda one: one[0])[:MAX_KINDS],
        "params": _params(policy.spec.get("paramKind")),
        "has_params": written.params,
    }
    if not kinds:
        return []
    try:
        found_warnings: list[dict[str, str]] = for_definitions().ask({"do": "types", "of": asked}).get("warnings", [])
    except Ended:
        return []
    return found_warnings


def _params(stated: Any) -> Node | None:
    """Return the node of the parameters of a policy; None: it has none, or their kind is not known."""
    kind = KINDS.of_version(stated["apiVersion"], stated["kind"]) if stated else None
    return kind_node(kind.schema()) if kind is not None else None
