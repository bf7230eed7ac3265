"""Rules in CEL of CustomResourceDefinitions: compiled when a definition is written, run when an object is written."""

from __future__ import annotations

from typing import Any

import orjson

from apps.objects import cel_pool
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import Object
from controlplane.kind import Kind, text_of
from controlplane.kinds import DEFINITION
from controlplane.wire.definition_rules import schemas_with_rules
from controlplane.wire.structural import StructuralSchema


def check_rules(kind: Kind, new: Object, old: Object | None) -> None:
    """Check an admitted object by the rules of its definition, or the rules in a definition itself. old None: created.

    Raises Invalid with every cause. A definition whose rules an edit does not change is not checked again.
    """
    if kind.key == DEFINITION:
        before = {} if old is None else dict(schemas_with_rules(_document(old)))
        stated = [(field, node) for field, node in schemas_with_rules(_document(new)) if before.get(field) != node]
        causes = cel_pool.rule_faults(stated) if stated else []
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
