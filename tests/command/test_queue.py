"""The queue from the command: looked at, ordered about, paused."""

from __future__ import annotations

import json
import os
import pty

import pytest

from tests.api.server import Client, Server
from tests.api.test_actions import leave
from tests.api.test_evictions import queue
from tests.command.conftest import Lifeboat
from tests.command.test_moving import SECONDS, started


def test_the_queue_is_a_sentence_and_a_table_in_its_order(lifeboat: Lifeboat, server: Server, namespace: str) -> None:
    queue(server, namespace, "web")
    queue(server, namespace, "db", state="Held", reason="NoRefuge")

    done = lifeboat("queue", "-n", namespace)

    first, heading, *rows = done.stdout.splitlines()
    assert done.exit_code == 0, done.stderr
    assert first.startswith("1 queued, 1 held (NoRefuge 1); ")
    assert heading.split() == ["POSITION", "NAMESPACE", "EVICTION", "STATE", "REASON", "DUE", "ETA"]
    assert [row.split()[2:4] for row in rows] == [["web.member1", "Queued"], ["db.member1", "Held"]]
    assert "s ago)" in rows[0]


def test_an_empty_queue_names_the_evicted_copies_that_still_move(
    lifeboat: Lifeboat, server: Server, api: Client, namespace: str
) -> None:
    left = leave(api, namespace)
    cluster = f"{namespace}-b"
    api.post(f"{left}/revert", {})  # the copy there is a graceful eviction now

    first, second = lifeboat("queue", "-n", namespace).stdout.splitlines()
    of_another = lifeboat("queue", "-n", namespace, "--cluster", f"{namespace}-a").stdout.splitlines()

    assert first == f"No eviction of namespace {namespace} waits."
    assert "1 evicted copy still moves" in second
    assert f"{cluster} 1" in second
    assert of_another == [f"No eviction from {namespace}-a of namespace {namespace} waits."]


def test_the_queue_for_programs_is_a_list_of_evictions(lifeboat: Lifeboat, server: Server, namespace: str) -> None:
    queue(server, namespace, "web")

    found = json.loads(lifeboat("queue", "-n", namespace, "-o", "json", "--rate", "0").stdout)

    (one,) = found["items"]
    assert (one["kind"], one["status"]["estimate"]) == ("Eviction", "stopped")


def test_an_order_needs_a_reason_and_is_kept_with_it(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    queue(server, namespace, "web")

    without = lifeboat("hold", "web.member1", "-n", namespace)
    done = lifeboat("hold", "web.member1", "-n", namespace, "--reason", "we are on it")

    assert (without.exit_code, "--reason is missing" in without.stderr) == (2, True)
    assert (done.exit_code, done.stdout) == (0, "hold: 1 eviction\n"), done.stderr
    where = f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings/web"
    assert "we are on it" in json.dumps(api.get(where).document["metadata"]["annotations"])
    released = lifeboat("release", f"{namespace}/web.member1", "--reason", "done", "-o", "json")
    assert json.loads(released.stdout)["items"][0]["metadata"]["name"] == "web.member1"


def test_skip_and_expedite_ask_first_and_nothing_happens_without_a_terminal(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    queue(server, namespace, "web")
    queue(server, namespace, "db")
    where = f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings/web"
    everything = ("-n", namespace, "--cluster", "member1", "--reason", "planned")

    asked = lifeboat("skip", *everything)
    tried = lifeboat("expedite", *everything, "--dry-run")
    before = api.get(where).document["metadata"].get("annotations")
    done = lifeboat("skip", *everything, "--yes")
    expedited = lifeboat("expedite", "web.member1", "-n", namespace, "--reason", "first", "-y")

    assert (asked.exit_code, "repeat the command with --yes" in asked.stderr) == (7, True)
    assert "Skip: 2 evictions from member1, in 1 namespace." in asked.stderr
    assert (tried.exit_code, "dry run: nothing was changed" in tried.stderr) == (0, True)
    assert not before
    assert (done.exit_code, done.stdout) == (0, "skip: 2 evictions\n"), done.stderr
    assert (expedited.exit_code, expedited.stdout) == (0, "expedite: 1 eviction\n"), expedited.stderr


@pytest.mark.parametrize(
    ("count", "given", "typed", "code"),
    [
        pytest.param(11, ("--cluster", "member1"), "y", 7, id="many, y"),
        pytest.param(11, ("--cluster", "member1"), "member1", 0, id="many, the cluster"),
        pytest.param(11, (), "11", 0, id="many chosen ones, their number"),
        pytest.param(10, ("--cluster", "member1"), "y", 0, id="ten, y"),
    ],
)
def test_an_order_about_more_than_ten_evictions_is_confirmed_by_typing(
    server: Server, namespace: str, count: int, given: tuple[str, ...], typed: str, code: int
) -> None:
    names = [f"web{number}" for number in range(count)]
    for name in names:
        queue(server, namespace, name)
    chosen = given or tuple(f"{name}.member1" for name in names)
    terminal, inside = pty.openpty()

    asking = started(server, "skip", *chosen, "-n", namespace, "--reason", "planned", stdin=inside)
    os.write(terminal, f"{typed}\n".encode())
    out, err = asking.communicate(timeout=SECONDS)
    os.close(terminal), os.close(inside)

    assert (asking.returncode, out) == (code, "" if code else f"skip: {count} evictions\n"), err
    assert (f"{count} workloads are concerned: type" in err) == (count > 10), err


def test_an_eviction_that_does_not_exist_is_named(lifeboat: Lifeboat, namespace: str) -> None:
    done = lifeboat("skip", "web.nowhere", "-n", namespace, "--reason", "x", "--yes")

    assert done.exit_code == 4
    assert f"no eviction web.nowhere in namespace {namespace}" in done.stderr
    assert lifeboat("skip", "--reason", "x").exit_code == 2


def test_a_refusal_is_the_message_of_the_api(lifeboat: Lifeboat, server: Server, namespace: str) -> None:
    queue(server, namespace, "web", state="Evicted")

    done = lifeboat("hold", "web.member1", "-n", namespace, "--reason", "x")

    assert done.exit_code == 3
    assert "has already been evicted from cluster member1" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_order_about_many_is_given_although_one_of_them_was_evicted_since_it_was_listed(
    lifeboat: Lifeboat, server: Server, api: Client, namespace: str
) -> None:
    """A queue moves while the dry runs of its evictions take their time: nothing of it would be held."""
    queue(server, namespace, "gone", state="Evicted")
    for name in ("web", "db"):
        queue(server, namespace, name)

    three = (f"{name}.member1" for name in ("web", "gone", "db"))
    done = lifeboat("hold", *three, "-n", namespace, "--reason", "we look at it", "--yes")

    assert (done.exit_code, done.stdout) == (3, "hold: 2 evictions\n"), done.stderr
    assert "gone.member1: " in done.stderr
    assert "has already been evicted from cluster member1" in done.stderr
    assert "1 eviction not ordered" in done.stderr
    bindings = f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings"
    for name in ("web", "db"):
        assert "we look at it" in json.dumps(api.get(f"{bindings}/{name}").document["metadata"]["annotations"])


def test_a_pause_holds_with_author_and_end_and_resume_ends_it(lifeboat: Lifeboat, api: Client, namespace: str) -> None:
    holds = "/apis/failover.lifeboat.io/v1alpha1/evictionholds"
    where, mine = f"{holds}/{namespace}", ("--name", namespace, "-n", namespace)
    api.delete(holds)  # those of other tests: the answer to a second resume depends on them

    refused = lifeboat("pause", *mine)
    paused = lifeboat("pause", *mine, "--reason", "storm", "--for", "2h")
    hold = api.get(where).document["spec"]
    asked = lifeboat("resume", namespace)
    resumed = lifeboat("resume", namespace, "--yes")
    again = lifeboat("resume", namespace, "--yes")
    lifeboat("pause", "--name", f"{namespace}-b", "-n", namespace, "--reason", "calm")
    wrong = lifeboat("resume", namespace, "--yes")
    lifeboat("resume", f"{namespace}-b", "--yes")

    assert (refused.exit_code, "--reason is missing" in refused.stderr) == (2, True)
    assert paused.exit_code == 0, paused.stderr
    assert paused.stdout.startswith(f"paused: no eviction of namespace {namespace} until 20")
    assert (hold["who"], hold["reason"], hold["namespaces"]) == ("admin", "storm", [namespace])
    assert (asked.exit_code, "admin: storm" in asked.stderr) == (7, True)
    assert resumed.exit_code == 0, resumed.stderr
    assert (api.get(where).status, again.exit_code) == (404, 0), again.stderr
    assert again.stdout == f"there is no pause {namespace}, and no other: nothing to resume\n"
    assert (wrong.exit_code, f"other pauses: {namespace}-b" in wrong.stderr) == (4, True), wrong.stderr


def test_a_pause_of_a_part_leaves_the_pause_of_the_fleet_as_it_is(
    lifeboat: Lifeboat, api: Client, namespace: str
) -> None:
    """Two people at once: the second would have ended the pause of the fleet, and evictions would have gone on."""
    holds = "/apis/failover.lifeboat.io/v1alpha1/evictionholds"

    fleet = lifeboat("pause", "--reason", "three clusters down")
    part = lifeboat("pause", "-n", namespace, "--cluster", "member2", "--reason", "disk work")
    longer = lifeboat("pause", "--reason", "three clusters down, two looked at", "--for", "3h")
    other = lifeboat("pause", "-n", namespace, "--name", "pause", "--reason", "mine")
    specs = {one["metadata"]["name"]: one["spec"] for one in api.get(holds).document["items"]}
    resumed = [lifeboat("resume", f"pause-member2-{namespace}", "-y"), lifeboat("resume", "-y")]

    assert (fleet.exit_code, part.exit_code, longer.exit_code) == (0, 0, 0), part.stderr
    assert f"no eviction from member2 of namespace {namespace} until `lifeboat resume pause-member2-" in part.stdout
    assert specs["pause"]["reason"] == "three clusters down, two looked at"
    assert "namespaces" not in specs["pause"]
    assert specs[f"pause-member2-{namespace}"]["namespaces"] == [namespace]
    assert other.exit_code == 3
    assert "pause pauses evictions in the fleet until 20" in other.stderr
    assert "choose another --name" in other.stderr
    assert [one.exit_code for one in resumed] == [0, 0], resumed[0].stderr


def test_a_resume_counts_what_no_other_pause_holds_and_names_the_pauses_that_are_left(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    holds = "/apis/failover.lifeboat.io/v1alpha1/evictionholds"
    api.delete(holds)
    queue(server, namespace, "web", state="Held", reason="OnHold")
    lifeboat("pause", "--reason", "storm")
    lifeboat("pause", "-n", namespace, "--reason", "disks")

    part = lifeboat("resume", f"pause-{namespace}", "-n", namespace, "--yes")
    whole = lifeboat("resume", "-n", namespace, "--yes")

    assert part.stdout == "resumed: 0 evictions may continue\n"
    assert (
        "still paused: pause pauses evictions in the fleet, by admin: storm; end it: lifeboat resume pause"
        in part.stderr
    )
    assert whole.stdout == "resumed: 1 eviction may continue\n"
    assert "still paused" not in whole.stderr


def test_a_pause_that_has_ended_is_not_one_that_holds_evictions(lifeboat: Lifeboat, api: Client) -> None:
    holds = "/apis/failover.lifeboat.io/v1alpha1/evictionholds"
    api.delete(holds)
    spec = {"reason": "old", "who": "ann", "expiresAt": "2020-01-01T00:00:00Z"}
    assert api.post(holds, {"metadata": {"name": "last-year"}, "spec": spec}).status == 201

    named, unnamed = lifeboat("resume", "pause-shop", "--yes"), lifeboat("resume", "--yes")
    api.delete(f"{holds}/last-year")

    assert (named.exit_code, named.stdout) == (0, "there is no pause pause-shop, and no other: nothing to resume\n")
    assert (unnamed.exit_code, "last-year" in unnamed.stderr) == (0, False)


def test_a_pause_of_another_user_is_not_taken_over(lifeboat: Lifeboat, api: Client) -> None:
    path = "/apis/failover.lifeboat.io/v1alpha1/evictionholds"
    spec = {"reason": "I look at it", "who": "ann"}
    assert api.post(path, {"metadata": {"name": "pause"}, "spec": spec}).status == 201

    refused = lifeboat("pause", "--for", "5m", "--reason", "a short look")
    hold = api.get(f"{path}/pause").document["spec"]
    resumed = lifeboat("resume", "-y")

    assert (refused.exit_code, "in the fleet, by ann: I look at it" in refused.stderr) == (3, True)
    assert (hold["who"], hold.get("expiresAt")) == ("ann", None)
    assert resumed.exit_code == 0, resumed.stderr


def test_a_long_queue_is_a_sentence_and_its_first_evictions(
    lifeboat: Lifeboat, server: Server, api: Client, namespace: str
) -> None:
    """10,000 evictions took 12 s and as many lines, every two seconds with -w, and the sentence was out of sight."""
    queue(server, namespace, "web")
    (columns,) = server.sql(
        "SELECT string_agg(column_name, ', ') FROM information_schema.columns "
        "WHERE table_name = 'failover_eviction' AND column_name NOT IN ('key', 'binding', 'state', 'reason')"
    )
    for number, state, reason in ((160, "Queued", ""), (7, "Held", "NoRefuge")):
        server.sql(
            f"WITH made AS (INSERT INTO failover_eviction (key, binding, state, reason, {columns[0]}) "
            f"SELECT replace(key, '/web|', '/{state.lower()}' || n || '|'), binding || n, '{state}', '{reason}', "
            f"{columns[0]} FROM failover_eviction, generate_series(1, {number}) n "
            f"WHERE binding = 'work.karmada.io/ResourceBinding:{namespace}/web' RETURNING 1) SELECT count(*) FROM made"
        )

    short, whole = (lifeboat("queue", *more).stdout.splitlines() for more in ((), ("-o", "wide")))
    part = lifeboat("queue", "-n", namespace).stdout.splitlines()
    checked = lifeboat("doctor").stdout
    server.sql(f"DELETE FROM failover_eviction WHERE binding LIKE '%:{namespace}/%'")

    numbers = short[0].partition(";")[0]
    assert numbers == whole[0].partition(";")[0]
    assert "NoRefuge" in numbers
    listed, everything = (sum(".member" in line for line in lines) for lines in (short, whole))
    assert listed == 100
    assert short[-1] == f"… and {everything - listed} more (-o wide, -n, --cluster, or the page /queue)"
    assert part[0].startswith("161 queued, 7 held (NoRefuge 7); ")
    assert len(part) == 170
    assert "evictions are held: " in checked


def test_a_pause_after_one_of_that_name_that_has_ended_holds_what_it_says(lifeboat: Lifeboat, api: Client) -> None:
    """Server-side apply would keep the end and the namespaces, which another program has written: nothing is held."""
    path = "/apis/failover.lifeboat.io/v1alpha1/evictionholds"
    spec = {"reason": "old", "who": "ann", "namespaces": ["shop"], "expiresAt": "2020-01-01T00:00:00Z"}
    assert api.post(path, {"metadata": {"name": "pause"}, "spec": spec}).status == 201

    paused = lifeboat("pause", "--reason", "three clusters down")
    hold = api.get(f"{path}/pause").document["spec"]
    resumed = lifeboat("resume", "-y")

    assert (paused.exit_code, resumed.exit_code) == (0, 0), paused.stderr
    assert paused.stdout.startswith("paused: no eviction in the fleet until `lifeboat resume`")
    assert (hold["who"], hold["reason"]) == ("admin", "three clusters down")
    assert ("expiresAt" in hold, "namespaces" in hold) == (False, False)


def test_a_pause_that_another_user_makes_while_the_reason_is_typed_is_not_replaced(
    lifeboat: Lifeboat, server: Server, api: Client
) -> None:
    """The pause without an end would have become one of 5 minutes, and evictions would have gone on."""
    path = "/apis/failover.lifeboat.io/v1alpha1/evictionholds"
    terminal, inside = pty.openpty()

    asking = started(server, "pause", "--for", "5m", stdin=inside)
    assert asking.stderr is not None
    shown = ""
    while not shown.endswith("Reason:"):
        shown += asking.stderr.read(1)
    assert api.post(path, {"metadata": {"name": "pause"}, "spec": {"reason": "disks", "who": "ann"}}).status == 201
    os.write(terminal, b"a short look\n")
    _, err = asking.communicate(timeout=SECONDS)
    os.close(terminal), os.close(inside)
    hold = api.get(f"{path}/pause").document["spec"]
    lifeboat("resume", "-y")

    assert (asking.returncode, "in the fleet, by ann: disks" in err) == (3, True), err
    assert (hold["who"], hold.get("expiresAt")) == ("ann", None)
