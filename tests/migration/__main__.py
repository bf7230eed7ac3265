"""`make migration`: takes three real members over from a control plane that plays a Karmada, and gives them back.

A stack fills the members with LAB/manifests/all-kinds.yaml. A kube-apiserver gets what a Karmada would hold then, and
the objects on the members get Karmada's field manager. A second, empty stack imports that, from the running API and
from files. Fails if anything is written to a member before the takeover, if a pod changes or restarts, if the
comparison finds a difference, or if the source could not go on with the members after they are given back.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from apps.command.program import app
from tests.lab import kubectl, listed, members, stack
from tests.migration import original

KINDS: Final = "manifests/all-kinds.yaml"
SPACE: Final = "lab"
NAMES: Final = ("member1", "member2", "member3")
WITHIN: Final = 180.0  # seconds
LOOK: Final = 1.0
RENEWED: Final = ("Event", "Lease")
CONFIRMED: Final = ("--yes", "--reason", "a test of the migration")
# An API server raises the generation of these for a new annotation or label, too. A takeover changes some: the uid of
# the template, and the id of its policy.
COUNT_MARKS: Final = ("Deployment", "EndpointSlice")
GONE_ON: Final = "example.com/gone-on"
# Of which template an object is the copy, and its labels and annotations. Karmada writes its own again.
TEMPLATE_MARKS: Final = tuple(
    f"resourcetemplate.karmada.io/{name}" for name in ("uid", "generation", "managed-labels", "managed-annotations")
)
COMPARED: Final = ("Same", "Marks only")
Snapshot = dict[str, Any]


def main() -> int:
    """Run the whole story. Raises AssertionError or RuntimeError at the first step that fails."""
    parser = argparse.ArgumentParser(prog="make migration")
    parser.add_argument("--lab", type=Path, required=True, help="folder with the programs and scripts of members")
    parser.add_argument("--dir", type=Path, required=True, help="folder for members and stacks")
    arguments = parser.parse_args()
    lab, folder = arguments.lab.resolve(), arguments.dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "LAB": str(folder)}
    with members(lab, environment) as configs, original.api_server(lab, environment) as other:
        with stack(folder / "first", environment, configs) as source:
            _fill(source, lab / KINDS)
            original.fill(other, source, lab / KINDS)
        for config in configs:
            say(f"{config.stem} holds {original.written_by_karmada(config)} objects")
        exported = _export(other, folder / "exported")
        with stack(folder / "second", environment, []) as target:
            with _still(lab, environment):
                _observe(target, other, exported, configs)
            given = _written(configs)
            _take_over(target, configs)
            _give_back(target, exported, configs)
        _compare_given_back(given, _written(configs))
        pods = _pods(configs)
        _go_on(configs)
        _same_pods(configs, pods)
    say("nothing was written before the takeover, no pod changed, and the source could go on")
    return 0


def _fill(source: Path, manifest: Path) -> None:
    """Apply the manifest and wait until every object is on all members, and every pod runs."""
    for _ in range(2):  # a custom resource follows its definition
        _until(lambda: _applied(source, manifest), "the manifest is applied")
    _until(lambda: not _unapplied(source), "every object is on the members", lambda: _unapplied(source))


def _applied(source: Path, manifest: Path) -> bool:
    try:
        # No annotation with the manifest, which `kubectl create` would renew in the copy of this control plane.
        kubectl(source, "apply", "--server-side", "-f", str(manifest))
    except RuntimeError:
        return False
    return True


def _unapplied(source: Path) -> list[str]:
    """Return the bindings whose objects are not applied, or are not on every member."""
    bindings = listed(source, "resourcebindings,clusterresourcebindings", "-A")
    waiting = [one for one in bindings if not _is_whole(one)]
    return [one["metadata"]["name"] for one in waiting] if bindings else ["no binding"]


def _is_whole(binding: dict[str, Any]) -> bool:
    status = binding.get("status") or {}
    applied = [one["clusterName"] for one in status.get("aggregatedStatus") or () if one.get("applied")]
    healthy = all(one.get("health") != "Unhealthy" for one in status.get("aggregatedStatus") or ())
    # A CronJob, a Service of type LoadBalancer and a claim without a provisioner never become healthy here.
    return sorted(applied) == list(NAMES) and (healthy or "deployment" not in binding["metadata"]["name"])


def _export(other: Path, folder: Path) -> Path:
    """Write what `kubectl get -o yaml` prints of the control plane."""
    folder.mkdir(exist_ok=True)
    kinds = kubectl(other, "api-resources", "--verbs=list,create", "-o", "name").split()
    (folder / "all.yaml").write_text(kubectl(other, "get", ",".join(kinds), "-A", "-o", "yaml"))
    return folder


@contextmanager
def _still(lab: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Stop the controllers of the members, so that only this control plane could write to them."""
    for name in NAMES:
        subprocess.run([str(lab / "members.sh"), "freeze", name], env=environment, check=True)
    try:
        yield
    finally:
        for name in NAMES:
            subprocess.run([str(lab / "members.sh"), "thaw", name], env=environment, check=True)


def _observe(target: Path, other: Path, exported: Path, configs: Sequence[Path]) -> None:
    before = _versions(configs)
    say(f"{len(before)} objects are watched for writes")
    for way in (("--from", str(other)), ("--file", str(exported))):
        say(lifeboat(target, "import", *way, *CONFIRMED))
        _compare(target)
        _unwritten(configs, before)
        if way[0] == "--from":
            lifeboat(target, "import", *way, "--undo", *CONFIRMED)
            _until(lambda: not _clusters(target), "the clusters are gone")
            _unwritten(configs, before)
    assert _placed(target) == _placed(other), "placements differ"


def _take_over(target: Path, configs: Sequence[Path]) -> None:
    before, pods, placed = _written(configs), _pods(configs), _placed(target)
    lifeboat(target, "takeover", *NAMES, *CONFIRMED)
    _until(lambda: not _unowned(configs), "every object belongs to this control plane", lambda: _unowned(configs))
    _until(lambda: not _unapplied(target), "every object is applied", lambda: _unapplied(target))
    after = _written(configs)
    for part in ("uid", "generation", "finalizers", "content"):
        assert _part(after, part) == _part(before, part), _difference(before, after)
    assert _placed(target) == placed
    _same_pods(configs, pods)
    say(f"{len(after)} objects keep uid, generation and content; {len(pods)} pods keep uid and restarts")
    _scale(target, 3)
    _until(lambda: all(_count(config) == 3 for config in configs), "three pods run on each member")
    _same_pods(configs, pods)
    _scale(target, 2)
    _until(lambda: all(_count(config) == 2 for config in configs), "two pods run on each member")


def _unowned(configs: Sequence[Path]) -> list[str]:
    """Return the objects to which this control plane has not written."""
    written = _written(configs)
    return [key for key, one in written.items() if original.OURS not in [each["manager"] for each in one["owners"]]]


def _give_back(target: Path, exported: Path, configs: Sequence[Path]) -> None:
    pods = _pods(configs)
    lifeboat(target, "observe", *NAMES, *CONFIRMED)
    before = _written(configs)
    lifeboat(target, "import", "--file", str(exported), "--undo", *CONFIRMED)
    _until(lambda: not _clusters(target), "the clusters are gone")
    assert _written(configs) == before, _difference(before, _written(configs))
    _same_pods(configs, pods)


def _compare_given_back(before: Snapshot, after: Snapshot) -> None:
    """Compare what the source looks at: uid, labels, annotations, finalizers and content of each object."""
    for part in ("uid", "finalizers", "content", "labels", "annotations"):
        was, now = _without_marks(_part(before, part)), _without_marks(_part(after, part))
        assert was == now, f"{part}: {_difference(was, now)}"
    say(f"{len(after)} objects have the labels, annotations, finalizers and content that they had before the import")


def _without_marks(part: Snapshot) -> Snapshot:
    return {
        key: {name: value for name, value in one.items() if name not in TEMPLATE_MARKS}
        if isinstance(one, dict)
        else one
        for key, one in part.items()
    }


def _go_on(configs: Sequence[Path]) -> None:
    """Write each object as the source does: an update of the whole object by its field manager, with a new label."""
    for config in configs:
        for _ in range(original.TRIES):  # a controller may write at the same time
            if not (left := [one for one in original.written(config) if GONE_ON not in one["metadata"]["labels"]]):
                break
            for one in left:
                one["metadata"]["labels"][GONE_ON] = "yes"
            items = {"apiVersion": "v1", "kind": "List", "items": left}
            with contextlib.suppress(RuntimeError):
                kubectl(config, "replace", f"--field-manager={original.MANAGER}", "-f", "-", given=items)
        found = original.written(config)
        left = [one["metadata"]["name"] for one in found if GONE_ON not in one["metadata"]["labels"]]
        assert found
        assert not left, left
        say(f"the source has written {len(found)} objects of {config.stem} again")


def _compare(target: Path) -> None:
    found = json.loads(lifeboat(target, "compare", "-o", "json"))["items"]
    wrong = [one for one in found if one["verdict"] not in COMPARED]
    assert found
    assert not wrong, json.dumps(wrong, indent=1)
    counts = {verdict: sum(1 for one in found if one["verdict"] == verdict) for verdict in COMPARED}
    say(f"compared: {counts}")


def lifeboat(kubeconfig: Path, *arguments: str) -> str:
    """Run the command and return what it printed. Raises AssertionError if it fails."""
    environment = {"KUBECONFIG": str(kubeconfig), "NO_COLOR": "1", "COLUMNS": "200"}
    done = CliRunner().invoke(app, list(arguments), env=environment)
    assert done.exit_code == 0, done.output
    return done.stdout


def _written(configs: Sequence[Path]) -> Snapshot:
    """Return what writers of specs see of each object on each member, without what controllers report."""
    found: Snapshot = {}
    for config in configs:
        for one in original.written(config):
            metadata = one["metadata"]
            owners = [entry for entry in metadata["managedFields"] if entry.get("subresource") != "status"]
            kept = {key: metadata.get(key) for key in ("uid", "labels", "annotations", "finalizers")}
            kept["generation"] = None if one["kind"] in COUNT_MARKS else metadata.get("generation")
            kept["content"] = {key: value for key, value in one.items() if key not in ("metadata", "status")}
            name = f"{config.stem} {one['kind']} {metadata.get('namespace', '')}/{metadata['name']}"
            found[name] = kept | {"owners": owners}
    return found


def _versions(configs: Sequence[Path]) -> Snapshot:
    """Return the resourceVersion of each object on each member. Events and Leases are left out: API servers renew them.

    No controller may run, because its writes count as well.
    """
    return {
        f"{config.stem} {one['kind']} {one['metadata'].get('namespace', '')}/{one['metadata']['name']}": one[
            "metadata"
        ]["resourceVersion"]
        for config in configs
        for one in original.objects(config)
        if one["kind"] not in RENEWED
    }


def _unwritten(configs: Sequence[Path], before: Snapshot) -> None:
    now = _versions(configs)
    assert now == before, _difference(before, now)


def _part(snapshot: Snapshot, name: str) -> Snapshot:
    return {key: one[name] for key, one in snapshot.items()}


def _difference(before: Snapshot, after: Snapshot) -> str:
    keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return "\n".join(f"{key}: {before.get(key)} -> {after.get(key)}" for key in keys[:5])


def _pods(configs: Sequence[Path]) -> dict[str, tuple[str, int]]:
    """Return uid and restarts of each pod of each member, without those of the CronJob."""
    found = {}
    for config in configs:
        for one in listed(config, "pods", "-n", SPACE):
            if not one["metadata"]["name"].startswith("often-"):
                restarts = sum(each["restartCount"] for each in one["status"].get("containerStatuses") or ())
                found[f"{config.stem} {one['metadata']['name']}"] = one["metadata"]["uid"], restarts
    return found


def _same_pods(configs: Sequence[Path], before: dict[str, tuple[str, int]]) -> None:
    now = _pods(configs)
    changed = {name: (one, now.get(name)) for name, one in before.items() if now.get(name) != one}
    assert before
    assert not changed, changed


def _clusters(target: Path) -> list[dict[str, Any]]:
    return [one for one in listed(target, "clusters") if one["metadata"]["name"] in NAMES]


def _placed(control_plane: Path) -> dict[str, Any]:
    bindings = listed(control_plane, "resourcebindings,clusterresourcebindings", "-A")
    return {one["metadata"]["name"]: sorted(map(str, one["spec"].get("clusters") or ())) for one in bindings}


def _scale(target: Path, replicas: int) -> None:
    """Set the replicas of the StatefulSet: those of the Deployment belong to its autoscaler on each member."""
    kubectl(target, "scale", "statefulset", "db", "-n", SPACE, f"--replicas={replicas}")


def _count(config: Path) -> int:
    pods = listed(config, "pods", "-n", SPACE, "-l", "app=db")
    return sum(1 for one in pods if "deletionTimestamp" not in one["metadata"])


def _until(condition: Callable[[], bool], claim: str, shown: Callable[[], Any] = lambda: "") -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline, f"not true after {WITHIN:g} s: {claim}: {shown()}"
        time.sleep(LOOK)
    say(claim)


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
