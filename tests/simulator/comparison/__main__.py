"""Compare the simulator with a real member: `make members-compare LAB=… [RECORD=1]`.

The member is a kube-apiserver without controllers. `--record` keeps its answers for the test that needs no member.
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.simulator.comparison.answers import RECORDED, Real, Simulated, answers_of, generated, prepare
from tests.simulator.comparison.cases import NAMESPACE, Step
from tests.simulator.comparison.differences import differences


def main() -> int:
    config = yaml.safe_load(Path(sys.argv[1]).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    url = urlsplit(cluster["server"])
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    real = Real.at(url.hostname or "", url.port or 443, ca=ca, token=user["token"])
    version = real.send(Step("GET", "/version"))[1]["gitVersion"]
    chosen = generated()
    _clean(real)
    prepare(real.send)
    _until_served(real)
    answers = dict(answers_of(real.send, chosen))
    if "--record" in sys.argv:
        kept = {"version": version, "cases": [[*case, answers[case.name]] for case in chosen]}
        RECORDED.write_bytes(gzip.compress(json.dumps(kept, separators=(",", ":")).encode(), 9, mtime=0))
    simulated = dict(answers_of(Simulated().send, chosen))
    found = [line for case in chosen for line in differences(case, answers[case.name], simulated[case.name])]
    print(*found, sep="\n")
    steps = sum(len(case.steps) for case in chosen)
    print(f"{len(chosen)} cases, {steps} requests to kube-apiserver {version}: {len(found)} answers differ")
    return 1 if found else 0


def _until_served(real: Real) -> None:
    for _ in range(100):
        if real.send(Step("GET", f"/apis/lab.example.io/v1/namespaces/{NAMESPACE}/boats"))[0] == 200:
            return
        time.sleep(0.1)
    raise SystemExit("the custom kind is not served after 10 s")


def _clean(real: Real) -> None:
    """Delete what an earlier comparison left. The namespace stays Terminating where no controller runs: a member that
    has been compared is wiped."""
    if real.send(Step("GET", f"/api/v1/namespaces/{NAMESPACE}"))[0] == 200:
        raise SystemExit(f"the member has a namespace {NAMESPACE} of an earlier comparison: wipe it and start it again")


if __name__ == "__main__":
    sys.exit(main())
