"""The kubectl lines of writes that pages ask to confirm: each can be pasted into a shell and does the same."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from apps.objects.yaml_text import edited
from controlplane.apimachinery.meta import Ref
from controlplane.kind import KINDS

LONGEST: Final = 4000  # characters of an object in a line
MOST_NAMED: Final = 100  # objects in the lines of a deletion


def delete_line(refs: Sequence[Ref]) -> str:
    """Return the commands that delete objects: one for each kind and namespace. Those above MOST_NAMED are counted."""
    lines = []
    for (kind, namespace), group in groupby(sorted(refs[:MOST_NAMED]), key=lambda ref: (ref.kind, ref.namespace)):
        within = f" -n {namespace}" if namespace else ""
        lines.append(f"kubectl delete {resource_name(kind)}{within} {' '.join(shlex.quote(ref.name) for ref in group)}")
    more = len(refs) - MOST_NAMED
    return " && ".join(lines) + (f" (and {more} more)" if more > 0 else "")


def write_line(document: dict[str, Any], *, is_new: bool) -> str:
    """Return the command that creates an object, or replaces it. A large object is read from a file of its name."""
    verb = "create" if is_new else "replace"
    text = shlex.quote(json.dumps(edited(document), ensure_ascii=False))
    if len(text) > LONGEST:
        name = document.get("metadata", {}).get("name") or "object"
        return f"kubectl {verb} -f {shlex.quote(f'{name}.yaml')}"
    return f"kubectl {verb} -f - <<< {text}"


def resource_name(kind: str) -> str:
    """Return the name of a kind as kubectl takes it: PLURAL.GROUP, or PLURAL in the core group."""
    resource = KINDS[kind].resource
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
