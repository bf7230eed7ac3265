"""The columns that `kubectl get failoverconfigurations` prints: the settings and the tier that are in force."""

from __future__ import annotations

from typing import Any

from controlplane.wire.resource import Column

IN_FORCE = "inForce"
"""Under this key the columns of a FailoverConfiguration read what is in force. It is not part of the object."""


def _in_force(name: str) -> Any:
    return lambda doc, now: doc.get(IN_FORCE, {}).get(name, "")


COLUMNS = (
    Column("Failover", _in_force("gate"), description="The feature gate Failover: On or Off."),
    Column("Tier", _in_force("tier"), description="Normal, Secondary, Stopped or Blind."),
    Column("Rate", _in_force("rate"), description="Evictions per second that the tier allows now."),
    Column("Rates", _in_force("rates"), description="resourceEvictionRate/secondaryResourceEvictionRate."),
    Column("Threshold", _in_force("threshold"), description="unhealthyClusterThreshold."),
    Column("Large", _in_force("large"), description="largeClusterNumThreshold."),
    Column("Why", _in_force("why"), priority=1, description="Why the tier is not Normal."),
)
