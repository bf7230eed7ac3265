"""memory: the proportional set size of every process, PostgreSQL and Redis included, empty and with a fleet.

SIZES: clusters x bindings, e.g. SIZES=0x0,100x10000.
"""

from __future__ import annotations

import os
import time

from tests.bench.figure import Figure
from tests.bench.own_stack import STAND_INS, USUAL_INTERVALS, OwnStack, own_stack, sizes

USUAL, IN_A_WHOLE_RUN = "0x0,100x10000", "0x0,10x1000"
SETTLED_SECONDS = 20.0  # after the last request
PATHS = (
    "/",
    "/queue",
    "/apis/cluster.karmada.io/v1alpha1/clusters",
    "/apis/work.karmada.io/v1alpha2/resourcebindings?limit=500",
    "/apis/apps/v1/deployments?limit=500",
    "/apis/failover.lifeboat.io/v1alpha1/fleetreadinesses",
    "/openapi/v2",
)


def run() -> list[Figure]:
    """Return the memory at each size, in a stack of its own that has been asked the usual questions."""
    figures = []
    for clusters, bindings in sizes(IN_A_WHOLE_RUN if os.environ.get("BENCH_WHOLE") else USUAL):
        with own_stack(**USUAL_INTERVALS) as stack:
            if clusters:
                stack.manage("fleet", "--clusters", str(clusters), "--bindings", str(bindings))
                use(stack)
            time.sleep(SETTLED_SECONDS)
            figures += measure(stack, f"memory.{clusters}x{bindings}")
    return figures


def use(stack: OwnStack) -> None:
    """Ask what operators, GitOps tools and kubectl ask, so that caches are filled."""
    for path in PATHS:
        stack.ask("GET", path)


def measure(stack: OwnStack, name: str) -> list[Figure]:
    """Return the sum over all processes, the sum without the stand-ins, and a figure for each role."""
    shares = stack.memory()
    everything = sum(share.proportional for share in shares)
    product = sum(share.proportional for share in shares if share.role not in STAND_INS)
    count = sum(share.processes for share in shares)
    database = f"database of {stack.number('SELECT pg_database_size(current_database())') / 2**20:,.0f} MB"
    return [
        Figure(name, everything, "MB", count, f"proportional set size of all processes, {database}"),
        Figure(f"{name}.product", product, "MB", count, f"without {' and '.join(STAND_INS)}"),
        *(
            Figure(f"{name}.{one.role}", one.proportional, "MB", one.processes, f"{one.private:.1f} MB private")
            for one in shares
        ),
    ]
