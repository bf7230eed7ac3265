"""The kubectl line of an act: the command that sends the same request as `lifeboat`."""

from __future__ import annotations

import json
import shlex
from typing import Final, NamedTuple

from apps.command.errors import Document

MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
FIELD_MANAGER: Final = "lifeboat"


class Attempt(NamedTuple):
    """A write that was tried as a dry run. `body` None: it has none. `type`: the content type of a patch."""

    method: str
    path: str
    body: Document | None = None
    type: str = ""


class Place(NamedTuple):
    """What a path of the API names. `name` "": a collection. `sub` "": no subresource."""

    resource: str
    namespace: str
    name: str
    sub: str


def kubectl_line(attempt: Attempt) -> str:
    """Return the command, for a shell with here-strings, such as bash and zsh."""
    place = place_of(attempt.path)
    within = f" -n {place.namespace}" if place.namespace else ""
    body = shlex.quote(json.dumps(attempt.body or {}, ensure_ascii=False))
    if attempt.method == "DELETE":
        return f"kubectl delete {place.resource}{within} {place.name}"
    if attempt.type == APPLY:
        return f"kubectl apply --server-side --force-conflicts --field-manager={FIELD_MANAGER} -f - <<< {body}"
    if attempt.method == "PATCH":
        return f"kubectl patch {place.resource}{within} {place.name} --type=merge -p {body}"
    if place.sub:
        return f"kubectl create --raw {attempt.path} -f - <<< {body}"
    return f"kubectl create{within} -f - <<< {body}"


def place_of(path: str) -> Place:
    """Return what a path such as /apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE names."""
    root, *parts = path.strip("/").split("/")
    group = parts.pop(0) if root == "apis" else ""
    parts.pop(0)  # the version
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    plural, name, sub = [*parts, "", ""][:3]
    return Place(f"{plural}.{group}" if group else plural, namespace, name, sub)
