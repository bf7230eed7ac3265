"""ResourceInterpreterCustomization (config.karmada.io/v1alpha1): scripts that say what the fields of a kind mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from controlplane.apimachinery.causes import invalid, required
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object, UserStruct
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import SPEC, explain
from controlplane.settings import Settings
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

INTERPRETER_CUSTOMIZATION = "config.karmada.io/ResourceInterpreterCustomization"
MAX_SCRIPT = 262_144  # characters

OPERATIONS = {
    "Retain": ("retention", "Retain", 1),
    "InterpretReplica": ("replica_resource", "GetReplicas", 2),
    "InterpretComponent": ("component_resource", "GetComponents", 1),
    "ReviseReplica": ("replica_revision", "ReviseReplica", 1),
    "InterpretStatus": ("status_reflection", "ReflectStatus", 1),
    "AggregateStatus": ("status_aggregation", "AggregateStatus", 1),
    "InterpretHealth": ("health_interpretation", "InterpretHealth", 1),
    "InterpretDependency": ("dependency_interpretation", "GetDependencies", 1),
}
"""The operations of interpreters: the field with the script, the function it has to define, the number of results."""


class LuaRule(UserStruct, frozen=True):
    lua_script: Annotated[str, Meta(description="Lua script that defines the function of the operation.")] = ""


class CustomizationTarget(UserStruct, frozen=True):
    """The kind that the scripts are for."""

    api_version: Annotated[str, Meta(description="apiVersion of the kind, for example apps/v1.")] = ""
    kind: Annotated[str, Meta(description="Kind, for example Deployment.")] = ""


class CustomizationRules(UserStruct, frozen=True):
    """The scripts, by operation. An operation without a script is interpreted as before."""

    retention: Annotated[
        LuaRule | None,
        Meta(
            description="Retain(desiredObj, observedObj) returns the desired object with fields that the member keeps."
        ),
    ] = None
    replica_resource: Annotated[
        LuaRule | None,
        Meta(description="GetReplicas(desiredObj) returns the number of replicas, and what each of them requests."),
    ] = None
    component_resource: Annotated[
        LuaRule | None,
        Meta(description="GetComponents(desiredObj) returns the components of a workload with several pod templates."),
    ] = None
    replica_revision: Annotated[
        LuaRule | None,
        Meta(
            description="ReviseReplica(desiredObj, desiredReplica) returns the object with another number of replicas."
        ),
    ] = None
    status_reflection: Annotated[
        LuaRule | None,
        Meta(description="ReflectStatus(observedObj) returns the part of the status that is reported."),
    ] = None
    status_aggregation: Annotated[
        LuaRule | None,
        Meta(description="AggregateStatus(desiredObj, statusItems) returns the object with the combined status."),
    ] = None
    health_interpretation: Annotated[
        LuaRule | None, Meta(description="InterpretHealth(observedObj) returns whether the object is healthy.")
    ] = None
    dependency_interpretation: Annotated[
        LuaRule | None,
        Meta(description="GetDependencies(desiredObj) returns the objects that are needed in the same cluster."),
    ] = None


class CustomizationSpec(UserStruct, frozen=True):
    target: Annotated[CustomizationTarget, Meta(description="Kind that the scripts are for.")] = CustomizationTarget()
    customizations: Annotated[CustomizationRules, Meta(description="Scripts, by operation.")] = CustomizationRules()


class InterpreterCustomization(Object, frozen=True):
    """Scripts that say what the fields of one kind mean."""

    spec: CustomizationSpec = CustomizationSpec()

    def scripts(self) -> Iterator[tuple[str, str]]:
        """Yield the operations that have a script, each with its text."""
        for operation, (field, _, _) in OPERATIONS.items():
            rule: LuaRule | None = getattr(self.spec.customizations, field)
            if rule is not None and rule.lua_script:
                yield operation, rule.lua_script

    @property
    def target_key(self) -> str:
        """Return the key of the target kind, for example apps/Deployment."""
        group, _, _ = self.spec.target.api_version.rpartition("/")
        return f"{group}/{self.spec.target.kind}" if group else self.spec.target.kind


def validate(new: InterpreterCustomization, old: InterpreterCustomization | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a customization. Whether a script is Lua is checked where it is written."""
    target, causes = new.spec.target, []
    if not target.api_version:
        causes.append(required("spec.target.apiVersion", "write the apiVersion of the kind, for example apps/v1"))
    elif target.api_version.count("/") > 1:
        causes.append(invalid("spec.target.apiVersion", target.api_version, "must be <group>/<version> or <version>"))
    if not target.kind:
        causes.append(required("spec.target.kind", "write the kind, for example Deployment"))
    for field, function, _ in OPERATIONS.values():
        rule: LuaRule | None = getattr(new.spec.customizations, field)
        path = script_path(field)
        if rule is not None and not rule.lua_script:
            causes.append(required(path, f"write a script with the function {function}"))
        elif rule is not None and len(rule.lua_script) > MAX_SCRIPT:
            causes.append(invalid(path, "…", f"must have at most {MAX_SCRIPT} characters"))
    return causes


def script_path(field: str) -> str:
    """Return the path of the script in a field of the rules, as it is written in documents."""
    first, *rest = field.split("_")
    return f"spec.customizations.{first}{''.join(map(str.capitalize, rest))}.luaScript"


explain({InterpreterCustomization: SPEC})

DECLARED = (
    Kind(
        resource=Resource(
            "config.karmada.io",
            "v1alpha1",
            "ResourceInterpreterCustomization",
            "resourceinterpretercustomizations",
            "resourceinterpretercustomization",
            False,
            short_names=("ric",),
            categories=("karmada-io",),
            columns=(
                Column("Target-Api-Version", cells.field("spec", "target", "apiVersion")),
                Column("Target-Kind", cells.field("spec", "target", "kind")),
            ),
        ),
        type=InterpreterCustomization,
        schema=lambda: schema_of(InterpreterCustomization),
        validate=validate,
        has_status=False,
    ),
)
