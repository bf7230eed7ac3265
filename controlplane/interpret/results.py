"""Results of scripts and webhooks as values of this program. Every function raises ValueError for a result that cannot
be used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.selectors import LabelSelector, selector_errors
from controlplane.interpret.interpreter import Demand, Dependency, Document
from controlplane.kinds.binding import AggregatedStatusItem, Component, ReplicaRequirements

MAX_REPLICAS = 2**31 - 1


def demand(replicas: Any = None, requirements: Any = None) -> Demand:
    """Return the demand that a script reports: the number of replicas, and what each requests (None: nothing)."""
    if isinstance(replicas, bool) or not isinstance(replicas, int | float):
        raise ValueError(f"the first result must be a number of replicas, not {_shown(replicas)}")
    _check_number(replicas)
    if requirements not in (None, []) and not isinstance(requirements, dict):
        raise ValueError(f"the requirements must be a table, not {_shown(requirements)}")
    return Demand(int(replicas), _requirements(requirements))


def checked_demand(found: Demand) -> Demand:
    """Return the demand that a rule which is known here reports, of a document with values of any type."""
    _check_number(found.replicas)
    return Demand(found.replicas, _checked(found.requirements))


def checked_components(found: Iterable[Component]) -> tuple[Component, ...]:
    """Return the components that a rule which is known here reports, of a document with values of any type."""
    components = tuple(replace(one, replica_requirements=_checked(one.replica_requirements)) for one in found)
    for one in components:
        _check_number(one.replicas)
    return components


def in_namespace(found: Demand, doc: Document) -> Demand:
    """Return the demand with the namespace of the object, unless the rule named another."""
    if found.requirements is None or found.requirements.namespace:
        return found
    namespace = str((doc.get("metadata") or {}).get("namespace") or "")
    return Demand(found.replicas, replace(found.requirements, namespace=namespace))


def components(listed: Any = None) -> tuple[Component, ...]:
    """Return the components of a workload, with replicas and requirements."""
    if not isinstance(listed, list):
        raise ValueError(f"the result must be a list of components, not {_shown(listed)}")
    found = []
    for entry in listed:
        if not isinstance(entry, dict):
            raise ValueError(f"a component must be a table, not {_shown(entry)}")
        wanted = demand(entry.get("replicas", 0), entry.get("replicaRequirements"))
        found.append(Component(str(entry.get("name") or ""), wanted.replicas, wanted.requirements))
    return tuple(found)


def same_object(doc: Document, result: Any = None) -> Document:
    """Return the changed document. It must still be the same object, by kind, namespace and name."""
    if not isinstance(result, dict):
        raise ValueError(f"the result must be the object, not {_shown(result)}")
    if _identity(result) != _identity(doc):
        raise ValueError(
            f"the result is {_identity(result)}, but the object is {_identity(doc)}: they must be the same"
        )
    return result


def status_in(result: Any = None) -> Document:
    """Return the status in the object that aggregation returned. An empty one: the object has none."""
    if not isinstance(result, dict):
        raise ValueError(f"the result must be the object with its status, not {_shown(result)}")
    return status(result.get("status") or {}) or {}


def status(result: Any = None) -> Document | None:
    """Return a status. An empty table is an empty status."""
    if result == []:
        return {}
    if not isinstance(result, dict):
        raise ValueError(f"the status must be a table, not {_shown(result)}")
    return result


def health(result: Any = None) -> bool:
    if not isinstance(result, bool):
        raise ValueError(f"the result must be true or false, not {_shown(result)}")
    return result


def dependencies(listed: Any = None) -> list[Dependency]:
    """Return the objects that are needed. Each has apiVersion and kind, and either a name or a label selector."""
    if not isinstance(listed, list):
        raise ValueError(f"the result must be a list of dependencies, not {_shown(listed)}")
    found = []
    for entry in listed:
        fields = entry if isinstance(entry, dict) else {}
        name, selector = str(fields.get("name") or ""), fields.get("labelSelector")
        if not fields.get("apiVersion") or not fields.get("kind"):
            raise ValueError(f"the dependency {_shown(entry)} must have apiVersion and kind")
        if not name and not isinstance(selector, dict):
            raise ValueError(f"the dependency {_shown(entry)} must have a name or a labelSelector")
        if not name:
            _check_selector(selector)
        place = str(fields.get("namespace") or "")
        found.append(
            Dependency(str(fields["apiVersion"]), str(fields["kind"]), place, name, None if name else selector)
        )
    return found


def _check_selector(selector: Any) -> None:
    try:
        errors = selector_errors(msgspec.convert(selector, LabelSelector))
    except msgspec.ValidationError as error:
        raise ValueError(f"labelSelector: {error}") from error
    if errors:
        raise ValueError("labelSelector.{}: {}".format(*errors[0]))


def plain_items(items: Sequence[AggregatedStatusItem]) -> list[Document] | None:
    """Return the items of a binding's status as documents; None if there are none, as Karmada passes them."""
    return [msgspec.to_builtins(item) for item in items] or None


def _check_number(replicas: float) -> None:
    if not 0 <= replicas <= MAX_REPLICAS:
        raise ValueError(f"replicas: {replicas} is not between 0 and {MAX_REPLICAS}")


def _checked(requirements: ReplicaRequirements | None) -> ReplicaRequirements | None:
    """Return requirements whose values have the types that they are stored with: others could not be read again."""
    if requirements is None or (requirements.node_claim is None and not requirements.priority_class_name):
        return requirements
    try:
        return msgspec.convert(msgspec.to_builtins(requirements), ReplicaRequirements)
    except msgspec.ValidationError as error:
        raise ValueError(f"requirements: {error}") from error


def _requirements(fields: Any) -> ReplicaRequirements | None:
    if not fields:
        return None
    request = fields.get("resourceRequest") or {}
    if not isinstance(request, dict):
        raise ValueError(f"resourceRequest must be a table, not {_shown(request)}")
    plain = {**fields, "resourceRequest": {name: str(amount) for name, amount in request.items()}}
    if not plain.get("nodeClaim"):
        plain.pop("nodeClaim", None)
    try:
        return msgspec.convert(plain, ReplicaRequirements)
    except msgspec.ValidationError as error:
        raise ValueError(f"requirements: {error}") from error


def _identity(doc: Document) -> str:
    metadata = doc.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    place = metadata.get("namespace")
    name = f"{place}/{metadata.get('name')}" if place else metadata.get("name")
    return f"{doc.get('apiVersion')} {doc.get('kind')} {name}"


def _shown(value: Any) -> str:
    text = str(value)
    return "nothing" if value is None else text if len(text) <= 80 else f"{text[:77]}..."
