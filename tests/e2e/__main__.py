"""`make e2e`: runs files of Karmada's end-to-end suite against a stack with real members.

LAB is a folder with the programs and scripts of the suite: `unpack.sh`, `members.sh` and `e2e/run.sh`. Its README
describes them. Nothing of it is needed by the product.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.e2e import summary
from tests.e2e.interpreter_webhook import interpreter_webhook
from tests.lab import kubectl, members, stack
from tests.processes import PROJECT

SUMMARY = PROJECT / "docs" / "e2e.md"
CONTEXTS = ("karmada-apiserver", "karmada-host")  # names of contexts that the suite uses
# The suite expects these gates to be on, as they are where its authors run it.
GATES = ",".join(
    f"{name}=true"
    for name in (
        *("Failover", "FederatedQuotaEnforcement", "MultiplePodTemplatesScheduling", "PropagationPolicyPreemption"),
        *("ResourceQuotaEstimate", "StatefulFailoverInjection", "WorkloadAffinity"),
    )
)
# The names of the members' nodes resolve nowhere, so their kubelets are called by address.
MEMBER_FLAGS = "--kubelet-preferred-address-types=InternalIP"
INTERPRETED_KIND = "manifests/workload-crd.yaml"  # the specs of interpreters expect this kind on all sides


def main() -> int:
    """Start members and the stack, run the files, and merge the results into the summary. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="make e2e")
    parser.add_argument("--lab", type=Path, required=True, help="folder with the suite's programs and scripts")
    parser.add_argument("--dir", type=Path, required=True, help="folder for members, stack and reports")
    parser.add_argument("--files", required=True, help="files of the suite, separated by |")
    parser.add_argument("--procs", default="4", help="specs that run at the same time")
    arguments = parser.parse_args()
    lab, folder = arguments.lab.resolve(), arguments.dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        "LIFEBOAT_FEATURE_GATES": GATES,
        "LIFEBOAT_CLIENT_CERTIFICATES": "tls",  # karmadactl register logs in with the certificate that it asks for
        **os.environ,
        "LAB": str(folder),
        "APISERVER_FLAGS": MEMBER_FLAGS,
    }
    specs: list[summary.Spec] = []
    with (
        members(lab, environment) as configs,
        stack(folder / "stack", environment, configs) as own,
        interpreter_webhook() as webhook,
    ):
        kubeconfig = _kubeconfig(own, folder / "kubeconfig")
        for config in (kubeconfig, *configs):
            _apply(lab / INTERPRETED_KIND, config)
        described = folder / "webhook.json"
        described.write_text(json.dumps(webhook))
        _apply(described, kubeconfig)
        environment["KUBECONFIG"] = str(kubeconfig)
        for file in arguments.files.split("|"):  # the summary then has each file as soon as it has run
            label = file.partition(".")[0]
            _remove_left_clusters(kubeconfig)
            subprocess.run([str(lab / "e2e/run.sh"), label, file, arguments.procs], env=environment, check=True)
            ran = summary.update(SUMMARY, folder / "reports" / f"{label}.json")
            for spec in ran:
                print(f"{spec.result:8} {spec.seconds:6.1f} s  {spec.file}  {spec.name}  {spec.note}", flush=True)
            specs += ran
    failed = [spec for spec in specs if spec.result != "passed"]
    print(f"{len(specs) - len(failed)} of {len(specs)} specs passed; {SUMMARY.relative_to(PROJECT)} is up to date")
    return 1 if failed or not specs else 0


def _apply(manifest: Path, kubeconfig: Path) -> None:
    """Apply a manifest by the server, because it is too large for the annotation that clients write."""
    kubectl(kubeconfig, "apply", "--server-side", "-f", str(manifest))


def _remove_left_clusters(kubeconfig: Path) -> None:
    """Remove the clusters that failed specs have left, because the suite does not start while one is not Ready."""
    for name in kubectl(kubeconfig, "get", "clusters", "-o", "name").split():
        if "/member-e2e-" in name:
            kubectl(kubeconfig, "annotate", "--overwrite", name, "failover.lifeboat.io/unjoin=keep")
            kubectl(kubeconfig, "delete", name, "--timeout=60s")


def _kubeconfig(source: Path, target: Path) -> Path:
    text = source.read_text()
    for name in CONTEXTS:
        entry = f"contexts:\n- name: {name}\n  context:\n    cluster: {CONTEXTS[0]}\n    user: admin\n"
        text = text.replace("contexts:\n", entry, 1)
    text = text.replace("- name: lifeboat\n  cluster:", f"- name: {CONTEXTS[0]}\n  cluster:", 1)
    text = text.replace("    cluster: lifeboat\n", f"    cluster: {CONTEXTS[0]}\n")
    target.touch(mode=0o600)
    target.write_text(re.sub("current-context:.*", f"current-context: {CONTEXTS[0]}", text))
    return target


if __name__ == "__main__":
    sys.exit(main())
