"""The library `kube` of scripts: sums and sizes of resources, what pods request, what they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from lupa import lua51

from apps.interpretation.lua_values import Reader, Table, to_lua, with_shapes
from controlplane.apimachinery.quantities import NANO, Quantity
from controlplane.interpret import requirements
from controlplane.kinds.template.pods import referenced_objects

Function = Callable[..., Any]


def library(table: Table) -> Callable[..., tuple[bool, Any]]:
    """Return the function behind `require("kube")`: it is called with the name of a function, the number of arguments
    and the arguments. It returns True and the result, or False and a message; it never raises."""
    functions: dict[str, tuple[int, Function]] = {
        "resourceAdd": (-1, lambda *amounts: _sum(amounts)),
        "getResourceQuantity": (1, _size),
        "accuratePodRequirements": (1, lambda template: to_lua(_requirements(template), table)),
        "getPodDependencies": (2, lambda template, namespace: to_lua(_needs(template, namespace), table)),
    }

    def call(name: str, count: int, *arguments: Any) -> tuple[bool, Any]:
        expected, function = functions[name]
        if expected >= 0 and count != expected:
            return False, f"{name} accepts {expected} argument{'s' if expected > 1 else ''}, not {int(count)}"
        try:
            return True, function(*arguments[: int(count)])
        except Exception as error:  # noqa: BLE001  # an exception of Python must not reach a script
            return False, f"{name}: {error}"

    return call


def _quantity(value: Any) -> Quantity:
    if value is None:
        return Quantity(0)
    if not isinstance(value, str):
        raise ValueError(f"a text with a quantity is expected, not {value!r}")
    return Quantity.of(value)


def _sum(amounts: tuple[Any, ...]) -> str:
    total = Quantity(0)
    for amount in amounts:
        total = total + _quantity(amount)
    return str(total)


def _size(amount: Any) -> float:
    quantity = _quantity(amount)
    if quantity.sign() < 0:
        raise ValueError(f"{quantity} is negative")
    return quantity.nano / NANO


def _pod(template: Any) -> dict[str, Any]:
    if lua51.lua_type(template) != "table":
        raise ValueError("a pod template is expected")
    found = with_shapes(Reader().read(template), ())
    spec = found.get("spec") if isinstance(found, dict) else None
    return spec if isinstance(spec, dict) else {}


def _requirements(template: Any) -> Any:
    return msgspec.to_builtins(requirements.of_pod(_pod(template)))


def _needs(template: Any, namespace: Any) -> list[dict[str, str]]:
    place = "default" if namespace is None else str(namespace)
    return [
        {"apiVersion": "v1", "kind": kind, "namespace": place, "name": name}
        for kind, name in referenced_objects(_pod(template))
    ]
