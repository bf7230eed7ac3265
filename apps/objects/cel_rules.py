"""Rules in CEL of CustomResourceDefinitions: compiled when a definition is written, run when an object is written."""

from __future__ import annotations

from typing import Any

import orjson

from apps.objects import cel_expressions, cel_pool
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import Object
from controlplane.kind import Kind, text_of
from controlplane.kinds import DEFINITION
from controlplane.kinds.template import admission_kinds
from controlplane.kinds.template.admission_expressions import expressions_of
from controlplane.wire.definition_rules import schemas_with_rules
from controlplane.wire.structural import StructuralSchema


def check_rules(kind: Kind, new: Object, old: Object | None) -> None:
    """Check an admitted object by the rules of its definition, or the rules in a definition or admission policy itself.

    old None: created. Raises Invalid with every cause. Rules that an edit does not change are not checked again.
    """
    if kind.key == DEFINITION:
        before = {} if old is None else dict(schemas_with_rules(_document(old)))
        stated = [(field, node) for field, node in schemas_with_rules(_document(new)) if before.get(field) != node]
        causes = cel_pool.rule_faults(stated) if stated else []
    elif kind.key in admission_kinds.KEYS:
        written = expressions_of(kind.key, _document(new))
        is_known = old is not None and written == expressions_of(kind.key, _document(old))
        causes = [] if is_known else cel_expressions.faults(written)
    else:
        schema = kind.schema()
        if not isinstance(schema, StructuralSchema) or not schema.rules_digest:
            return
        causes = cel_pool.violations(schema, _document(new), None if old is None else _document(old))
    if causes:
        raise Invalid.of(kind.resource.kind, new.metadata.name, causes, group=kind.resource.group)


def _document(obj: Object) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(text_of(obj))
    return document
