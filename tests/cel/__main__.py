"""`python -m tests.cel KUBECONFIG`: ask a kube-apiserver and store its answers. It is emptied of what was made."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.cel.cases import DEFINITIONS, GROUP, WRITES, Case, Node, definition, instance
from tests.rbac.__main__ import Server

ANSWERS = Path(__file__).parent / "answers.json"
DEFINED = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def answer(status: int, body: Node) -> Node:
    causes = [] if status < 400 else (body.get("details") or {}).get("causes", [])
    return {"status": status, "causes": causes}


def written(server: Server, index: int, case: Case) -> Node:
    """Return the answer to the write of a case whose definition exists."""
    url = f"/apis/{GROUP}/v1/cases{index}"
    for _ in range(100):  # until the server serves the kind
        if server.ask("GET", url)[0] == 200:
            break
        time.sleep(0.1)
    if case.old is None:
        return answer(*server.ask("POST", url, instance(index, case.new)))
    status, stored = server.ask("POST", url, instance(index, case.old))
    assert status == 201, stored
    return answer(*server.ask("PUT", f"{url}/a", {**stored, "spec": case.new}))


def main(kubeconfig: str) -> None:
    server = Server(kubeconfig)
    for index, case in enumerate(WRITES):
        status, body = server.ask("POST", DEFINED, definition(index, case.schema))
        assert status == 201, (index, case, answer(status, body))
    found: dict[str, Any] = {"writes": [written(server, index, case) for index, case in enumerate(WRITES)]}
    for index in range(len(WRITES)):
        server.ask("DELETE", f"{DEFINED}/cases{index}.{GROUP}")
    found["definitions"] = [
        answer(*server.ask("POST", f"{DEFINED}?dryRun=All", definition(900 + index, schema)))
        for index, schema in enumerate(DEFINITIONS)
    ]
    found["version"] = server.ask("GET", "/version")[1]["gitVersion"]
    ANSWERS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
