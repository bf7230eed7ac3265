"""Types that many kinds contain: selectors, and the metadata of templates."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery import causes, selectors
from controlplane.kube.rules import Causes, Document, Type, labels

_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")


def _requirement(value: Document, at: str, out: Causes) -> None:
    operator, values, key = value.get("operator"), value.get("values"), value.get("key") or ""
    if operator in _WITH_VALUES:
        if not values:
            out.append(causes.required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in _WITHOUT_VALUES:
        if values:
            out.append(
                causes.forbidden(f"{at}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
    else:
        out.append(causes.invalid(f"{at}.operator", operator or "", "not a valid selector operator"))
    out.extend(causes.invalid(f"{at}.key", key, wrong) for wrong in selectors.label_key_errors(key))
    for index, text in enumerate(values or ()):
        out.extend(causes.invalid(f"{at}.values[{index}]", text, wrong) for wrong in selectors.label_value_errors(text))


def selects(selector: Document | None, tags: dict[str, str]) -> bool:
    """Test whether a label selector selects labels. None selects nothing, {} everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if tags.get(key) != value:
            return False
    for requirement in selector.get("matchExpressions") or ():
        operator, values, key = requirement.get("operator"), requirement.get("values") or (), requirement.get("key")
        known = tags.get(key or "")
        holds = {
            "In": known is not None and known in values,
            "NotIn": known is None or known not in values,
            "Exists": known is not None,
            "DoesNotExist": known is None,
        }
        if not holds.get(operator or "", False):
            return False
    return True


def is_selector(selector: Document) -> bool:
    """Test whether a label selector can be compiled: its operators, keys and values are valid."""
    out: Causes = []
    labels(selector.get("matchLabels"), "", out)
    for requirement in selector.get("matchExpressions") or ():
        _requirement(requirement, "", out)
    return not out


def has_no_terms(selector: Any) -> bool:
    """Test whether a label selector is absent or has no terms."""
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


TYPES = {
    "meta.v1.LabelSelector": Type(fields={"matchLabels": labels}),
    "meta.v1.LabelSelectorRequirement": Type(whole=(_requirement,)),
}
