"""The variable `authorizer` of admission expressions: what a user or a ServiceAccount may do.

Expressions cannot ask for a decision while they run. They get the decisions that are known, and report the first one
that is missing. The caller then makes it, and runs the expression again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from controlplane.apimachinery import selectors
from controlplane.wire.cel.functions import Function, Value, function

_TYPE: Final = "kubernetes.authorization."
AUTHORIZER, REQUEST_RESOURCE = "authorizer", "authorizer.requestResource"
VARIABLES: Final = {AUTHORIZER: f"{_TYPE}Authorizer", REQUEST_RESOURCE: f"{_TYPE}ResourceCheck"}
_AUTHORIZER, _PATH, _GROUP, _RESOURCE, _DECISION = (
    f"{_TYPE}{name}" for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
)
TYPES: Final = (_AUTHORIZER, _PATH, _GROUP, _RESOURCE, _DECISION)
_UNDECIDED: Final = re.compile(r"undecided:([0-9a-f]+);")  # hexadecimal, because a question has texts of users

Known = Mapping[str, Sequence[Any]]
"""For each question the answer: (whether it is allowed, the reason). A question is a JSON object."""


def authorizer_values(request: Mapping[str, Any], known: Known) -> dict[str, Any]:
    """Return the values of the variables for a request, with the decisions that are known."""
    resource = request["resource"]
    asked = {
        "group": resource["group"],
        "resource": resource["resource"],
        "subresource": request.get("subResource", ""),
        "namespace": request.get("namespace", ""),
        "name": request.get("name", ""),
    }
    basis = {"known": dict(known), "asked": {}}
    return {AUTHORIZER: {_AUTHORIZER: basis}, REQUEST_RESOURCE: {_RESOURCE: {**basis, "asked": asked}}}


def undecided(error: str) -> str | None:
    """Return the question that an expression's error asks; None: the expression failed for another reason."""
    found = _UNDECIDED.search(error)
    return None if found is None else bytes.fromhex(found[1]).decode()


def _with(kind: str, target: Value, **more: Any) -> Value:
    """Return a value of a type, which asks what `target` asks, and more."""
    (basis,) = target.values()
    return {kind: {**basis, "asked": {**basis["asked"], **more}}}


def _path(target: Value, path: str) -> Value:
    if not path:
        raise ValueError("path must not be empty")
    return _with(_PATH, target, path=path)


def _account(target: Value, namespace: str, name: str) -> Value:
    if selectors.dns1123_label_errors(namespace):
        raise ValueError("Invalid service account namespace")
    if selectors.dns1123_subdomain_errors(name):
        raise ValueError("Invalid service account name")
    return _with(_AUTHORIZER, target, account=f"{namespace}:{name}")


def _check(target: Value, verb: str) -> Value:
    (basis,) = target.values()
    question = json.dumps({**basis["asked"], "verb": verb}, sort_keys=True)
    answer = basis["known"].get(question)
    if answer is None:
        raise ValueError(f"undecided:{question.encode().hex()};")
    allowed, reason = answer
    return {_DECISION: {"allowed": allowed, "reason": reason}}


def _part(name: str) -> Any:
    """Return the CEL function that sets a part of a check, such as the namespace of the resource."""
    return lambda target, value: _with(_RESOURCE, target, **{name: value})


FUNCTIONS: tuple[Function, ...] = (
    function("path", _path, (_AUTHORIZER, "string", _PATH)),
    function("group", lambda target, group: _with(_GROUP, target, group=group), (_AUTHORIZER, "string", _GROUP)),
    function("serviceAccount", _account, (_AUTHORIZER, "string", "string", _AUTHORIZER)),
    function("resource", _part("resource"), (_GROUP, "string", _RESOURCE)),
    *(
        function(name, _part(name), (_RESOURCE, "string", _RESOURCE))
        for name in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
    ),
    function("check", _check, (_PATH, "string", _DECISION), (_RESOURCE, "string", _DECISION)),
    function("allowed", lambda decision: decision[_DECISION]["allowed"], (_DECISION, "bool")),
    function("reason", lambda decision: decision[_DECISION]["reason"], (_DECISION, "string")),
    function("errored", lambda decision: False, (_DECISION, "bool")),
    function("error", lambda decision: "", (_DECISION, "string")),
)
