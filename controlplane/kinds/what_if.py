"""WhatIf (failover.lifeboat.io/v1alpha1): what changes would do to the workloads. It is never stored."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from controlplane.apimachinery.meta import Object, Struct
from controlplane.kind import Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import BOTH, explain
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

RUNNING, FINISHED, FAILED = "Running", "Finished", "Failed"


class WhatIfSpec(Struct, frozen=True):
    changes: Annotated[
        tuple[dict[str, Any], ...],
        Meta(
            description=(
                "Changes that all happen now, each with its type: ClustersLost (names, regions, providers), "
                "ClustersDrained (names, rate), TaintAdded (cluster, taint), TaintRemoved (cluster, key, effect), "
                "Cordoned (names), ClusterRemoved (name, "
                "copies), Failback (cluster, rate), GateOrRateChanged (configuration), PolicyEdited (policy), "
                "HoldEdited (hold), Rescheduled (workloads, workloadSelector), ObjectsDeleted (refs)."
            )
        ),
    ] = ()
    background: Annotated[bool, Meta(description="true answers a small question in the background as well.")] = False


class WhatIfStatus(Struct, frozen=True):
    """The answer. `progress` is a share from 0 to 1."""

    phase: str = ""
    message: str = ""
    progress: float = 0.0
    sentence: str = ""
    effects: dict[str, Any] = {}


class WhatIf(Object, frozen=True):
    """What changes would do to the workloads. Small questions are answered at once, large ones in the background."""

    spec: WhatIfSpec = WhatIfSpec()
    status: WhatIfStatus = WhatIfStatus()


explain(
    {
        WhatIf: BOTH,
        WhatIfStatus: """
phase: Running, Finished or Failed. Read a running one again under metadata.name.
message: Why there is no answer.
progress: Share of the evictions that have been worked out, from 0 to 1.
sentence: The effects in one line.
effects: Bindings that move, have no place, wait, stay or change, with clusters, replicas and reasons.
""",
    }
)

RESOURCE = Resource(
    "failover.lifeboat.io",
    "v1alpha1",
    "WhatIf",
    "whatifs",
    "whatif",
    False,
    columns=(
        Column("Phase", cells.field("status", "phase")),
        Column("Effects", cells.field("status", "sentence")),
        Column("Message", cells.field("status", "message"), priority=1),
    ),
    verbs=("create", "get"),
)
KIND = Kind(resource=RESOURCE, type=WhatIf, schema=lambda: schema_of(WhatIf), has_generation=False)
"""Not registered, because it is never stored."""
