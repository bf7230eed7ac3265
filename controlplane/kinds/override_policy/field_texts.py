"""What `kubectl explain` prints for the fields of override policies. One line a field: its name and its text."""

from __future__ import annotations

from typing import Final

from controlplane.kinds.field_texts import SPEC
from controlplane.kinds.override_policy import (
    CommandArgsOverrider,
    FieldOverrider,
    FieldPatch,
    ImageOverrider,
    ImagePredicate,
    LabelAnnotationOverrider,
    OverridePolicy,
    Overriders,
    OverrideRule,
    OverrideSpec,
    PlaintextOverrider,
)

OPERATION: Final = """
path: JSON pointer of the field, such as /spec/template/spec/containers/0/image.
sub_path: JSON pointer in the document that the field contains. Empty: the whole document.
operator: add, remove or replace. A field that does not exist can only be added.
value: The new value. It is ignored by remove.
"""
COMMAND: Final = """
container_name: Containers with this name are changed. Others stay as they are.
operator: add appends values, remove takes them out.
value: Words of the command, or arguments.
"""
TEXTS: Final[dict[type, str]] = {
    OverridePolicy: SPEC,
    OverrideSpec: """
resource_selectors: Objects that the policy changes. Empty: all objects; of an OverridePolicy, all in its namespace.
override_rules: Changes for groups of clusters, applied in this order.
""",
    OverrideRule: """
target_cluster: Clusters for which the object is changed. Unset: every cluster.
overriders: The changes.
""",
    Overriders: """
plaintext: Operations of a JSON Patch on the object. They are applied last.
image_overrider: Changes of the registry, the repository or the tag of images.
command_overrider: Changes of the command of containers.
args_overrider: Changes of the arguments of containers.
labels_overrider: Changes of labels of the object.
annotations_overrider: Changes of annotations of the object.
field_overrider: Changes of a JSON or YAML document that is the text of a field.
""",
    PlaintextOverrider: OPERATION,
    FieldPatch: OPERATION,
    ImageOverrider: """
component: Registry, Repository or Tag. Tag is also the digest.
operator: add appends the value, replace sets it, remove takes the component out.
value: Text that is appended or set.
predicate: The field with the image. Unset: all containers of a pod, or of a workload's pod template.
""",
    ImagePredicate: "path: JSON pointer of the field with the image.",
    CommandArgsOverrider: COMMAND,
    LabelAnnotationOverrider: """
operator: add sets values, replace sets those of keys that exist, remove takes keys out.
value: Keys and values. remove ignores the values.
""",
    FieldOverrider: """
field_path: JSON pointer of the field whose text is changed.
json: Operations on the text as JSON.
yaml: Operations on the text as YAML.
""",
}
