"""ValidatingAdmissionPolicies: which concern a write, and what their answers mean for it [admission-policies]."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from controlplane.admission.matching import Match, match_of

Document = dict[str, Any]
Answer = Mapping[str, Any]

DENY, WARN, AUDIT = "Deny", "Warn", "Audit"
FAIL: Final = "Fail"
FAILURES: Final = "validation.policy.admission.k8s.io/validation_failure"
NOT_FOUND: Final = "no params found for policy binding with `Deny` parameterNotFoundAction"


class Binding(msgspec.Struct, frozen=True):
    """A binding of a policy: where it applies, with which parameters, and what follows from a failure."""

    name: str
    actions: tuple[str, ...]
    match: Match | None
    param_ref: Document | None


class Policy(msgspec.Struct, frozen=True):
    """A policy with its bindings. `digest` names its expressions."""

    name: str
    spec: Document
    digest: str
    match: Match
    bindings: tuple[Binding, ...]

    @property
    def fails(self) -> bool:
        """Whether an error of the policy denies the write."""
        return bool(self.spec.get("failurePolicy", FAIL) == FAIL)

    @property
    def param_kind(self) -> tuple[str, str] | None:
        """Return apiVersion and kind of the parameters; None: the policy has none."""
        stated = self.spec.get("paramKind")
        return (stated["apiVersion"], stated["kind"]) if stated else None


class Failure(NamedTuple):
    """Why a policy does not accept a write.

    `binding` "": the policy itself is wrong. `place`: the index of the validation.
    """

    policy: str
    binding: str
    message: str
    reason: str = "Invalid"
    place: int = 0

    @property
    def denial(self) -> str:
        """Return the message to the author of a write that is denied."""
        within = f" with binding '{self.binding}'" if self.binding else ""
        return f"ValidatingAdmissionPolicy '{self.policy}'{within} denied request: {self.message}"

    @property
    def warning(self) -> str:
        """Return the message to the author of a write that is stored."""
        return (
            f"Validation failed for ValidatingAdmissionPolicy '{self.policy}' with binding '{self.binding}': "
            f"{self.message}"
        )


class Verdict:
    """What all policies together say about a write."""

    def __init__(self) -> None:
        self.denied: list[Failure] = []
        self.warnings: list[str] = []
        self.annotations: dict[str, str] = {}
        self._audited: list[Document] = []

    def misconfigured(self, policy: Policy, binding: Binding | None, why: str) -> None:
        """Note that a policy or a binding cannot be applied. With failurePolicy Ignore that has no consequence."""
        if policy.fails:
            what = "policy" if binding is None else "binding"
            message = f"failed to configure {what}: {why}"
            self.denied.append(Failure(policy.name, "" if binding is None else binding.name, message))

    def answered(self, policy: Policy, binding: Binding, answer: Answer) -> None:
        """Note the answer of a policy for one object of parameters."""
        for failure in _failures(policy, binding, answer):
            if DENY in binding.actions:
                self.denied.append(failure)
            if WARN in binding.actions:
                self.warnings.append(failure.warning)
            if AUDIT in binding.actions:
                self._audited.append(_audited(failure, binding))
        for key, value, *_ in answer.get("annotations", ()):
            if value is not None:
                name = f"{policy.name}/{key}"
                known = self.annotations.get(name)
                self.annotations[name] = value if known in (None, value) else f"{known}, {value}"
        if self._audited:
            self.annotations[FAILURES] = json.dumps(self._audited)


def _failures(policy: Policy, binding: Binding, answer: Answer) -> Iterator[Failure]:
    """Yield why a policy does not accept a write. Its errors count only with failurePolicy Fail."""
    if "error" in answer:
        if policy.fails:
            yield Failure(policy.name, binding.name, answer["error"])
        return
    for denied in answer.get("denied", ()):
        if "error" not in denied:
            yield Failure(policy.name, binding.name, denied["message"], denied["reason"], denied["index"])
        elif policy.fails:
            yield Failure(policy.name, binding.name, denied["error"], place=denied["index"])
    for _, value, *error in answer.get("annotations", ()):
        if value is None and policy.fails:
            yield Failure(policy.name, binding.name, error[0])


def _audited(failure: Failure, binding: Binding) -> Document:
    return {
        "message": failure.message,
        "policy": failure.policy,
        "binding": failure.binding,
        "expressionIndex": failure.place,
        "validationActions": list(binding.actions),
    }


def policies_of(policies: Iterable[Document], bindings: Iterable[Document]) -> tuple[Policy, ...]:
    """Return the policies that have bindings, in the order of their names. Without a binding a policy does nothing."""
    by_policy: dict[str, list[Binding]] = {}
    for document in sorted(bindings, key=_name):
        spec = document["spec"]
        stated = spec.get("matchResources")
        match = None if stated is None else _match_of_binding(stated)
        made = Binding(_name(document), tuple(spec.get("validationActions") or ()), match, spec.get("paramRef"))
        by_policy.setdefault(spec["policyName"], []).append(made)
    found = []
    for document in sorted(policies, key=_name):
        name, spec = _name(document), document["spec"]
        if name in by_policy:
            digest = hashlib.sha256(msgspec.json.encode(spec)).hexdigest()
            match = match_of(spec.get("matchConstraints") or {})
            found.append(Policy(name, spec, digest, match, tuple(by_policy[name])))
    return tuple(found)


_ALL: Final = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}


def _match_of_binding(stated: Document) -> Match:
    """Return what the binding of a policy matches.

    A binding without resourceRules matches everything, because its policy restricts it already.
    """
    return match_of(stated if stated.get("resourceRules") else {**stated, "resourceRules": [_ALL]})


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])
