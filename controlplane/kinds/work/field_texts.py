"""What `kubectl explain` prints for the fields of Works. One line a field: its name and its text."""

from __future__ import annotations

from typing import Final

from controlplane.kinds.field_texts import BOTH, OBJECT
from controlplane.kinds.work import (
    ManifestStatus,
    ResourceIdentifier,
    Work,
    Workload,
    WorkSpec,
    WorkStatus,
)

TEXTS: Final[dict[type, str]] = {
    Work: BOTH,
    WorkSpec: """
workload: What the member gets.
suspend_dispatching: Send no changes to the member.
preserve_resources_on_deletion: Keep the object on the member when the Work is deleted.
""",
    Workload: "manifests: The manifests.",
    WorkStatus: """
conditions: Applied and others.
manifest_statuses: What the member reports of each manifest.
""",
    ManifestStatus: """
identifier: The manifest.
status: Status of the object on the member.
health: Healthy, Unhealthy or Unknown.
""",
    ResourceIdentifier: OBJECT,
}
