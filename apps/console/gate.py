"""/queue/gate/<on|off>: switches the feature gate Failover, without which no copy is evicted."""

from __future__ import annotations

from typing import Any, Final

from rest_framework.request import Request

from apps.api.authorization import Attributes
from apps.console.dry_run import of_write
from apps.console.guard import Act, ActPage, Effects
from apps.failover.queue_page import read_counts
from apps.failover.steering import GATE, apply_line, gate_of, set_gate
from apps.objects.configuration import REF, configuration
from controlplane.apimachinery.errors import NotFound
from controlplane.kind import KINDS
from controlplane.kinds import FAILOVER_CONFIGURATION

RESOURCE: Final = KINDS[FAILOVER_CONFIGURATION].resource
EXPLANATIONS: Final = {
    "on": "Copies on failed clusters are evicted from now on, at the eviction rate. Look first at what the queue has.",
    "off": "Failures are still detected, and lost clusters take no new copies, but no copy is evicted because of a "
    "taint: evictions that wait are dropped, and policies withdraw their taints. Moves that are under way finish. "
    "Drains, failbacks and application failovers go on. To hold evictions for a while, use Pause instead: it says who "
    "paused, and why.",
}


class GatePage(ActPage):
    """Switches the gate on or off."""

    back = "/queue"

    def asked(self, request: Request) -> Attributes:
        return Attributes(request.user, "patch", RESOURCE.group, RESOURCE.plural, name=REF.name)

    def act(self, request: Request, values: dict[str, Any]) -> Act:
        value = self.kwargs["value"]
        if value not in EXPLANATIONS:
            raise NotFound(f"the gate {GATE} is switched {' or '.join(EXPLANATIONS)}, not {value!r}")
        on = value == "on"

        def apply(reason: str) -> str:
            set_gate(self.writer(request, reason, act="FeatureGate"), on=on)
            return "/queue"

        return Act(
            f"Switch failover {value}",
            "failover",
            effects=lambda: _effects(on=on),
            apply=apply,
            kubectl=apply_line(gate_of(on=on), part="gate"),
            explanation=EXPLANATIONS[value],
        )


def _effects(*, on: bool) -> Effects:
    """Return what the switch would do. Evictions that wait are dropped when the gate is switched off."""
    found = of_write(lambda writer: set_gate(writer, on=on))
    is_on = configuration().settings(reread=True).gate(GATE)
    waiting = read_counts().waiting if is_on and not on else 0
    if not waiting or found.refused:
        return found
    dropped = "1 eviction that waits is" if waiting == 1 else f"{waiting} evictions that wait are"
    return found._replace(sentence=f"{dropped} dropped, and the copies stay where they are.")
