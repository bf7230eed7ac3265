"""Texts that `kubectl explain` prints for fields. This module has those that several kinds share.

The texts of a kind are beside its types. They have one line for each field: its name and its text. A field that is
declared with `Meta(description=…)` has its text there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controlplane.apimachinery import meta, selectors
from controlplane.wire.structs import describe

SPEC: Final = "spec: Desired state."
BOTH: Final = f"{SPEC}\nstatus: Observed state."
TAINT: Final = """
key: Key of the taint.
value: Value of the taint.
time_added: When the taint was added. The seconds of tolerations count from then.
add_on_match_seconds: Seconds for which the conditions have to match before the taint is added. Unset: 300. At least 1.
remove_on_mismatch_seconds: Seconds for which they must not match before the taint is removed. Unset: 180. At least 1.
operator: Equal (default) compares the value, Exists takes any value.
"""
REQUIREMENT: Final = """
key: Key of the label or field.
operator: In, NotIn, Exists or DoesNotExist; of fields In or NotIn.
values: Values that In and NotIn compare with.
"""
OBJECT: Final = """
api_version: apiVersion of the object.
kind: Kind of the object.
namespace: Namespace of the object. Empty: cluster-scoped, or any namespace where objects are selected.
name: Name of the object. Empty, where objects are selected: any name.
uid: UID of the object.
resource_version: resourceVersion of the object when it was read.
label_selector: Objects with these labels.
group: API group of the object.
version: API version of the object.
resource: Plural name of the kind.
ordinal: Position of the manifest in the Work.
"""
PROGRESS: Final = """
binding: The binding, as kind:namespace/name.
message: Explanation.
cluster: Name of the cluster.
since: Start time.
replicas: Number of replicas.
leaves: Clusters that give replicas back.
counted_at: When the tokens were counted.
finish_time: When it finished.
"""


def explain(texts: Mapping[type, str]) -> None:
    """Give the fields of types their texts."""
    for type_, lines in texts.items():
        describe(type_, dict(line.split(": ", 1) for line in lines.strip().splitlines()))


explain(
    {
        meta.Condition: """
type: Type of the condition.
status: True, False or Unknown.
reason: Reason in one word.
message: Explanation.
last_transition_time: When the status last changed.
observed_generation: Generation that the condition was computed from.
""",
        selectors.LabelSelector: """
match_labels: Labels that have to be equal.
match_expressions: Conditions that have to hold.
""",
        selectors.LabelSelectorRequirement: REQUIREMENT,
    }
)
