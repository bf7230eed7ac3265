"""Admission policies, their bindings, and the configurations of admission webhooks."""

from __future__ import annotations

import re
from typing import Any, Final

from controlplane.apimachinery import causes, selectors
from controlplane.apimachinery.errors import Cause
from controlplane.kube.rules import Causes, Document, Rule, Type, one_of, subdomain, unique
from controlplane.wire.client_config import ONE_ADDRESS, client_causes

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_POLICIES: Final = ("Fail", "Ignore")
_MATCH: Final = ("Equivalent", "Exact")
_REASONS: Final = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_ACTIONS: Final = ("Audit", "Deny", "Warn")
_EFFECTS: Final = ("None", "NoneOnDryRun")
_REVIEWS: Final = ("v1", "v1beta1")
_SELECTORS: Document = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_CONDITIONS, _ANNOTATIONS = 64, 20
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _alone(noun: str, *, named: bool = False) -> Rule:
    """Return the rule that "*" is the only item of a list. `named`: an empty item is refused too."""

    def rule(value: Any, at: str, out: Causes) -> None:
        if "*" in value and len(value) > 1:
            out.append(causes.invalid(at, value, f"if '*' is present, must not specify other {noun}"))
        out.extend(causes.required(f"{at}[{index}]") for index, item in enumerate(value) if named and item == "")

    return rule


def _operations(value: Any, at: str, out: Causes) -> None:
    if "*" in value and len(value) > 1:
        out.append(causes.invalid(at, value, "if '*' is present, must not specify other operations"))
    for index, operation in enumerate(value):
        if operation not in _OPERATIONS:
            out.append(causes.unsupported(f"{at}[{index}]", operation, _OPERATIONS))


def _resources(value: Any, at: str, out: Causes) -> None:
    plain = [one for one in value if "/" not in one and one != "*"]
    out.extend(causes.required(f"{at}[{index}]") for index, one in enumerate(value) if one == "")
    if "*/*" in value and len(value) > 1:
        out.append(causes.invalid(at, value, "if '*/*' is present, must not specify other resources"))
    if "*" in value and plain:
        rule = "if '*' is present, must not specify other resources without subresources"
        out.append(causes.invalid(at, value, rule))
    wild = {one[:-2] for one in value if one.endswith("/*") and one != "*/*"}
    for index, one in enumerate(value):
        name, slash, sub = one.partition("/")
        if slash and sub != "*" and name in wild:
            rule = f"if '{name}/*' is present, must not specify {one}"
            out.append(causes.invalid(f"{at}[{index}]", one, rule))


def _names(value: Any, at: str, out: Causes) -> None:
    out.extend(causes.duplicate(f"{at}[{index}]", one) for index, one in enumerate(value) if one in value[:index])


_RULE = Type(
    required=("operations", "apiGroups", "apiVersions", "resources"),
    fields={
        "operations": _operations,
        "apiGroups": _alone("API groups"),
        "apiVersions": _alone("API versions", named=True),
        "resources": _resources,
        "scope": one_of("*", "Cluster", "Namespaced"),
        "resourceNames": _names,
    },
    defaults={"scope": "*"},
)


def _expression(field: str, *, says: bool = True) -> Any:
    """Return the rule that an object has an expression."""

    def rule(value: Document, at: str, out: Causes) -> None:
        if not str(value.get(field) or "").strip():
            out.append(causes.required(f"{at}.{field}", f"{field} is not specified" if says else ""))

    return rule


def _named(value: Document, at: str, out: Causes) -> None:
    name = str(value.get("name") or "")
    if not name:
        out.append(causes.required(f"{at}.name", "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name):
        out.append(causes.invalid(f"{at}.name", name, "must be a valid CEL identifier"))


def _condition(value: Document, at: str, out: Causes) -> None:
    name = str(value.get("name") or "")
    if not name:
        out.append(causes.required(f"{at}.name"))
    else:
        out.extend(causes.invalid(f"{at}.name", name, wrong) for wrong in selectors.label_key_errors(name))


def _conditions(value: Any, at: str, out: Causes) -> None:
    if len(value) > _CONDITIONS:
        text = f"Too many: {len(value)}: must have at most {_CONDITIONS} items"
        out.append(Cause("FieldValueTooMany", text, at))
        return
    unique("name")(value, at, out)


def _text(value: Any, at: str, out: Causes) -> None:
    if value and not value.strip():
        out.append(causes.invalid(at, value, "must be non-empty if specified"))


def _message(value: Any, at: str, out: Causes) -> None:
    _text(value, at, out)
    if "\n" in value.strip():
        out.append(causes.invalid(at, value, "must not contain line breaks"))


def _policy(value: Document, at: str, out: Causes) -> None:
    """Check the keys of audit annotations, which begin with the name of the policy."""
    name = (value.get("metadata") or {}).get("name") or ""
    for index, note in enumerate((value.get("spec") or {}).get("auditAnnotations") or ()):
        key = f"{name}/{note.get('key') or ''}"
        field = f"spec.auditAnnotations[{index}].key"
        out.extend(causes.invalid(field, key, wrong) for wrong in selectors.label_key_errors(key))


def _policy_spec(value: Document, at: str, out: Causes) -> None:
    if not value.get("validations") and not value.get("auditAnnotations"):
        rule = "validations or auditAnnotations must contain at least one item"
        out.extend(causes.required(f"{at}.{field}", rule) for field in ("validations", "auditAnnotations"))
    if value.get("matchConstraints") is not None and not value["matchConstraints"].get("resourceRules"):
        out.append(causes.required(f"{at}.matchConstraints.resourceRules"))


def _annotations(value: Any, at: str, out: Causes) -> None:
    if len(value) > _ANNOTATIONS:
        out.append(causes.invalid(at, value, f"must not have more than {_ANNOTATIONS} auditAnnotations"))
    unique("key")(value, at, out)


def _param_kind(value: Document, at: str, out: Causes) -> None:
    version = str(value.get("apiVersion") or "")
    for field in ("apiVersion", "kind"):
        if not value.get(field):
            out.append(causes.required(f"{at}.{field}"))
    if version.count("/") > 1:
        out.append(causes.invalid(f"{at}.apiVersion", version, f"unexpected GroupVersion string: {version}"))


def _param_ref(value: Document, at: str, out: Causes) -> None:
    name, selector, action = value.get("name"), value.get("selector"), value.get("parameterNotFoundAction")
    if name and selector is not None:
        rule = "name and selector are mutually exclusive"
        out.extend(causes.forbidden(f"{at}.{field}", rule) for field in ("name", "selector"))
    elif not name and selector is None:
        out.append(causes.required(at, "one of name or selector must be specified"))
    if not action:
        out.append(causes.required(f"{at}.parameterNotFoundAction"))
    elif action not in ("Deny", "Allow"):
        out.append(causes.unsupported(f"{at}.parameterNotFoundAction", action, ("Deny", "Allow")))


def _binding(value: Document, at: str, out: Causes) -> None:
    actions = value.get("validationActions") or []
    field = f"{at}.validationActions"
    if not actions:
        out.append(causes.required(field, "at least one validation action is required"))
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            out.append(causes.unsupported(f"{field}[{index}]", action, _ACTIONS))
        elif action in actions[:index]:
            out.append(causes.duplicate(f"{field}[{index}]", action))
    if "Deny" in actions and "Warn" in actions:
        rule = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API "
            "response and headers serves no purpose)"
        )
        out.append(causes.invalid(field, actions, rule))


def _webhook_name(value: Any, at: str, out: Causes) -> None:
    wrongs = selectors.dns1123_subdomain_errors(value) if value else []
    out.extend(causes.invalid(at, value, wrong) for wrong in wrongs)
    if value and not wrongs and value.count(".") < 2:
        out.append(causes.invalid(at, value, "should be a domain with at least three segments separated by dots"))


def _client(value: Document, at: str, out: Causes) -> None:
    out.extend(client_causes(value, at))


def _timeout(value: Any, at: str, out: Causes) -> None:
    if not 1 <= value <= 30:
        out.append(causes.invalid(at, value, "the timeout value must be between 1 and 30 seconds"))


def _webhook(value: Document, at: str, out: Causes) -> None:
    effects, versions = value.get("sideEffects"), value.get("admissionReviewVersions") or []
    if effects is None:
        out.append(causes.required(f"{at}.sideEffects", f"must specify one of {', '.join(_EFFECTS)}"))
    elif effects not in _EFFECTS:
        out.append(causes.unsupported(f"{at}.sideEffects", effects, _EFFECTS))
    field = f"{at}.admissionReviewVersions"
    if not versions:
        out.append(causes.required(field, f"must specify one of {', '.join(_REVIEWS)}"))
    for index, version in enumerate(versions):
        if version in versions[:index]:
            out.append(causes.invalid(f"{field}[{index}]", version, "duplicate version"))
    if versions and not set(versions) & set(_REVIEWS):
        out.append(causes.invalid(field, versions, f"must include at least one of {', '.join(_REVIEWS)}"))
    elif versions and "v1" not in versions:
        out.append(causes.invalid(field, versions, "must include v1: this API sends AdmissionReview v1 only"))
    if value.get("clientConfig") is None:
        out.append(causes.required(f"{at}.clientConfig", ONE_ADDRESS))


_WEBHOOK = Type(
    required=("name",),
    fields={
        "name": _webhook_name,
        "failurePolicy": one_of(*_POLICIES),
        "matchPolicy": one_of(*_MATCH),
        "timeoutSeconds": _timeout,
        "matchConditions": _conditions,
    },
    whole=(_webhook,),
    defaults={**_SELECTORS, "failurePolicy": "Fail", "timeoutSeconds": 10},
)

TYPES = {
    "admissionregistration.v1.RuleWithOperations": _RULE,
    "admissionregistration.v1.NamedRuleWithOperations": _RULE,
    "admissionregistration.v1.MatchResources": Type(
        fields={"matchPolicy": one_of(*_MATCH)},
        defaults=_SELECTORS,
    ),
    "admissionregistration.v1.MatchCondition": Type(whole=(_condition, _expression("expression", says=False))),
    "admissionregistration.v1.Variable": Type(whole=(_named, _expression("expression"))),
    "admissionregistration.v1.Validation": Type(
        fields={"message": _message, "messageExpression": _text, "reason": one_of(*_REASONS)},
        whole=(_expression("expression"),),
    ),
    "admissionregistration.v1.AuditAnnotation": Type(whole=(_expression("valueExpression"),)),
    "admissionregistration.v1.ParamKind": Type(whole=(_param_kind,)),
    "admissionregistration.v1.ParamRef": Type(whole=(_param_ref,)),
    "admissionregistration.v1.ValidatingAdmissionPolicy": Type(whole=(_policy,)),
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": Type(
        required=("matchConstraints",),
        fields={
            "failurePolicy": one_of(*_POLICIES),
            "matchConditions": _conditions,
            "auditAnnotations": _annotations,
        },
        whole=(_policy_spec,),
        defaults={"failurePolicy": "Fail"},
    ),
    "admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec": Type(
        required=("policyName",), fields={"policyName": subdomain}, whole=(_binding,)
    ),
    "admissionregistration.v1.ServiceReference": Type(defaults={"port": 443}),
    "admissionregistration.v1.WebhookClientConfig": Type(whole=(_client,)),
    "admissionregistration.v1.ValidatingWebhook": _WEBHOOK,
    "admissionregistration.v1.MutatingWebhook": _WEBHOOK._replace(
        fields={**_WEBHOOK.fields, "reinvocationPolicy": one_of("IfNeeded", "Never")},
        defaults={**_WEBHOOK.defaults, "reinvocationPolicy": "Never"},
    ),
    "admissionregistration.v1.ValidatingWebhookConfiguration": Type(
        fields={"webhooks": unique("name")},
    ),
    "admissionregistration.v1.MutatingWebhookConfiguration": Type(
        fields={"webhooks": unique("name")},
    ),
}
