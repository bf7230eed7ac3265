"""OverridePolicy and ClusterOverridePolicy (policy.karmada.io/v1alpha1): one type for both scopes."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from controlplane.apimachinery.meta import Object, UserStruct
from controlplane.kinds.policy import ClusterAffinity, ResourceSelector

OVERRIDE_POLICY = "policy.karmada.io/OverridePolicy"
CLUSTER_OVERRIDE_POLICY = "policy.karmada.io/ClusterOverridePolicy"
OVERRIDE_POLICIES = (CLUSTER_OVERRIDE_POLICY, OVERRIDE_POLICY)
"""In the order in which they are applied."""

ADD, REMOVE, REPLACE = "add", "remove", "replace"
REGISTRY, REPOSITORY, TAG = "Registry", "Repository", "Tag"


class PlaintextOverrider(UserStruct, frozen=True):
    """An operation of a JSON Patch on the whole object."""

    path: str
    operator: str
    value: Any = None


class ImagePredicate(UserStruct, frozen=True):
    path: str


class ImageOverrider(UserStruct, frozen=True):
    """A change of a part of images: of all containers, or of the field that the predicate names."""

    component: str
    operator: str
    value: str = ""
    predicate: ImagePredicate | None = None


class CommandArgsOverrider(UserStruct, frozen=True):
    """A change of the command, or of the arguments, of the containers with a name."""

    container_name: str
    operator: str
    value: tuple[str, ...] = ()


class LabelAnnotationOverrider(UserStruct, frozen=True):
    operator: str
    value: dict[str, str] = {}


class FieldPatch(UserStruct, frozen=True):
    """An operation of a JSON Patch on the document that a field contains."""

    sub_path: str
    operator: str
    value: Any = None


class FieldOverrider(UserStruct, frozen=True):
    """A change of a JSON or YAML document that is the text of a field, for example of a ConfigMap."""

    field_path: str
    json: tuple[FieldPatch, ...] = ()
    yaml: tuple[FieldPatch, ...] = ()


class Overriders(UserStruct, frozen=True):
    """Changes of an object. They are applied in this order: images, command, args, labels, annotations, fields,
    plaintext."""

    plaintext: tuple[PlaintextOverrider, ...] = ()
    image_overrider: tuple[ImageOverrider, ...] = ()
    command_overrider: tuple[CommandArgsOverrider, ...] = ()
    args_overrider: tuple[CommandArgsOverrider, ...] = ()
    labels_overrider: tuple[LabelAnnotationOverrider, ...] = ()
    annotations_overrider: tuple[LabelAnnotationOverrider, ...] = ()
    field_overrider: tuple[FieldOverrider, ...] = ()


class OverrideRule(UserStruct, frozen=True):
    """Changes for the clusters that an affinity chooses. `target_cluster` unset: for every cluster."""

    overriders: Overriders
    target_cluster: ClusterAffinity | None = None


class OverrideSpec(UserStruct, frozen=True):
    resource_selectors: tuple[ResourceSelector, ...] = ()
    override_rules: tuple[OverrideRule, ...] = ()
    target_cluster: Annotated[
        ClusterAffinity | None, Meta(description="Deprecated: write overrideRules. Clusters of spec.overriders.")
    ] = None
    overriders: Annotated[
        Overriders | None, Meta(description="Deprecated: write overrideRules. Changes for spec.targetCluster.")
    ] = None


class OverridePolicy(Object, frozen=True):
    """An OverridePolicy if it has a namespace, else a ClusterOverridePolicy."""

    spec: OverrideSpec = OverrideSpec()

    @property
    def cluster_scoped(self) -> bool:
        return not self.metadata.namespace

    @property
    def rules(self) -> tuple[OverrideRule, ...]:
        """The rules of the policy. The deprecated fields are a rule if there are no others."""
        spec = self.spec
        if spec.override_rules or spec.overriders is None:
            return spec.override_rules
        return (OverrideRule(spec.overriders, spec.target_cluster),)

    @property
    def shown(self) -> str:
        """ "namespace/name", or the name of a cluster-scoped policy."""
        namespace, name = self.metadata.namespace, self.metadata.name
        return f"{namespace}/{name}" if namespace else name

    def reads_cluster(self) -> bool:
        """Test whether the rules depend on more of a cluster than its name: its labels, provider, region or zones."""
        affinities = [rule.target_cluster for rule in self.rules if rule.target_cluster is not None]
        return any(choice.label_selector is not None or choice.field_selector is not None for choice in affinities)
