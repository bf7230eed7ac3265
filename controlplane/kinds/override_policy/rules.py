"""Validation and warnings of OverridePolicies and ClusterOverridePolicies [override-policies]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from controlplane.apimachinery.causes import invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.selectors import label_key_errors, label_value_errors, selector_errors
from controlplane.kinds.override_policy import (
    ADD,
    REGISTRY,
    REMOVE,
    REPLACE,
    REPOSITORY,
    TAG,
    FieldOverrider,
    FieldPatch,
    LabelAnnotationOverrider,
    OverridePolicy,
    Overriders,
    OverrideSpec,
)
from controlplane.kinds.policy import affinity_rules
from controlplane.settings import Settings

COMPONENTS = (REGISTRY, REPOSITORY, TAG)
OPERATORS = (ADD, REMOVE, REPLACE)
LIST_OPERATORS = (ADD, REMOVE)  # of commands and arguments
POINTER = 'must be empty, or a JSON pointer that starts with "/", such as /spec/replicas'


def validate(new: OverridePolicy, old: OverridePolicy | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a policy. The deprecated spec.overriders are only checked for their choices."""
    spec = new.spec
    causes = [*_selectors(new), *_deprecated(spec)]
    for index, rule in enumerate(spec.override_rules):
        path = f"spec.overrideRules[{index}]"
        causes += [*_choices(rule.overriders, f"{path}.overriders"), *_faults(rule.overriders, f"{path}.overriders")]
        if rule.target_cluster is not None:
            causes += affinity_rules.affinity(rule.target_cluster, f"{path}.targetCluster")
    return causes


def warn(new: OverridePolicy, old: OverridePolicy | None, settings: Settings) -> list[str]:
    """Return warnings about deprecated fields, and about faults in them that make every use of the policy fail."""
    spec, warnings = new.spec, list[str]()
    if spec.overriders is not None and not spec.override_rules:
        warnings.append("spec.overriders and spec.targetCluster are deprecated: write spec.overrideRules")
        warnings += [f"{cause.field}: {cause.message}" for cause in _faults(spec.overriders, "spec.overriders")]
    if not new.rules:
        warnings.append("the policy has no rules, so it changes nothing: write spec.overrideRules")
    return warnings


def _selectors(policy: OverridePolicy) -> Iterator[Cause]:
    for index, selector in enumerate(policy.spec.resource_selectors):
        path = f"spec.resourceSelectors[{index}]"
        for field, value in (("apiVersion", selector.api_version), ("kind", selector.kind)):
            if not value:
                yield required(f"{path}.{field}")
        if selector.label_selector is not None:
            for field, rule in selector_errors(selector.label_selector):
                yield invalid(f"{path}.labelSelector.{field}", selector.label_selector, rule)


def _deprecated(spec: OverrideSpec) -> Iterator[Cause]:
    """Yield the causes against the deprecated fields, which cannot be used together with rules."""
    if spec.target_cluster is not None:
        if spec.override_rules:
            rule = "overrideRules and targetCluster can't co-exist: move targetCluster into a rule"
            yield invalid("spec.targetCluster", spec.target_cluster, rule)
        yield from affinity_rules.affinity(spec.target_cluster, "spec.targetCluster")
    if spec.overriders is None:
        return
    if spec.override_rules and spec.overriders != Overriders():
        rule = "overrideRules and overriders can't co-exist: move overriders into a rule"
        yield invalid("spec.overriders", spec.overriders, rule)
    yield from _choices(spec.overriders, "spec.overriders")


def _choices(overriders: Overriders, path: str) -> Iterator[Cause]:
    """Yield a cause for each component and operator that is not supported."""
    for index, image in enumerate(overriders.image_overrider):
        if image.component not in COMPONENTS:
            yield unsupported(f"{path}.imageOverrider[{index}].component", image.component, COMPONENTS)
    for list_name, choices, operators in _operators(overriders):
        for index, operator in enumerate(operators):
            if operator not in choices:
                yield unsupported(f"{path}.{list_name}[{index}].operator", operator, choices)
    for index, field in enumerate(overriders.field_overrider):
        for list_name, patches in (("json", field.json), ("yaml", field.yaml)):
            for number, patch in enumerate(patches):
                if patch.operator not in OPERATORS:
                    where = f"{path}.fieldOverrider[{index}].{list_name}[{number}].operator"
                    yield unsupported(where, patch.operator, OPERATORS)


def _operators(overriders: Overriders) -> Iterator[tuple[str, tuple[str, ...], list[str]]]:
    """Yield each list of changes: its name, the operators that it may have, and those that it has."""
    for name, choices, items in (
        ("plaintext", OPERATORS, overriders.plaintext),
        ("imageOverrider", OPERATORS, overriders.image_overrider),
        ("commandOverrider", LIST_OPERATORS, overriders.command_overrider),
        ("argsOverrider", LIST_OPERATORS, overriders.args_overrider),
        ("labelsOverrider", OPERATORS, overriders.labels_overrider),
        ("annotationsOverrider", OPERATORS, overriders.annotations_overrider),
    ):
        yield name, choices, [item.operator for item in items]


def _faults(overriders: Overriders, path: str) -> Iterator[Cause]:
    """Yield the causes against paths, labels, annotations and patches that could never be applied."""
    for index, image in enumerate(overriders.image_overrider):
        if image.predicate is not None:
            yield from _pointer(image.predicate.path, f"{path}.imageOverrider[{index}].predicate.path")
    for index, labels in enumerate(overriders.labels_overrider):
        yield from _labels(labels, f"{path}.labelsOverrider[{index}].value")
    for index, notes in enumerate(overriders.annotations_overrider):
        yield from _keys(notes.value, f"{path}.annotationsOverrider[{index}].value")
    for index, field in enumerate(overriders.field_overrider):
        yield from _field(field, f"{path}.fieldOverrider[{index}]")


def _labels(labels: LabelAnnotationOverrider, path: str) -> Iterator[Cause]:
    for key, value in sorted(labels.value.items()):
        for rule in (*label_key_errors(key), *label_value_errors(value)):
            yield invalid(path, {key: value}, rule)


def _keys(notes: Mapping[str, str], path: str) -> Iterator[Cause]:
    """Yield the causes against keys of annotations, which may have uppercase letters in their prefix."""
    for key in sorted(notes):
        for rule in label_key_errors(key.lower()):
            yield invalid(path, key, rule)


def _field(field: FieldOverrider, path: str) -> Iterator[Cause]:
    yield from _pointer(field.field_path, f"{path}.fieldPath")
    if field.json and field.yaml:
        yield invalid(path, field, "FieldOverrider has both YAML and JSON set. Only one is allowed: remove one of them")
    if not field.json and not field.yaml:
        yield required(path, "FieldOverrider must have either JSON or YAML set: write the operations")
    yield from _patches(field.json, f"{path}.json")
    yield from _patches(field.yaml, f"{path}.yaml")


def _patches(patches: Sequence[FieldPatch], path: str) -> Iterator[Cause]:
    for index, patch in enumerate(patches):
        yield from _pointer(patch.sub_path, f"{path}[{index}].subPath")
        if patch.operator == REMOVE and patch.value is not None:
            yield invalid(f"{path}[{index}].value", patch.value, "value is not allowed for remove operation")
        if patch.operator in (ADD, REPLACE) and patch.value is None:
            yield invalid(f"{path}[{index}].value", None, "value is required for add or replace operation")


def _pointer(text: str, path: str) -> Iterator[Cause]:
    if text and not text.startswith("/"):
        yield invalid(path, text, POINTER)
