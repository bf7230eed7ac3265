"""A person with a browser: log in, look at everything, search, edit; kubectl sees it at once."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from controlplane.apimachinery.meta import Ref
from controlplane.kind import KINDS
from controlplane.kinds import CLUSTER
from tests.browser.conftest import Server
from tests.browser.person import log_in, open_cluster
from tests.builders.bare import cluster

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def _edit(page: Page, old: str, new: str) -> None:
    manifest = page.get_by_label("Manifest")
    manifest.fill(manifest.input_value().replace(old, new))
    page.get_by_role("button", name="Save and continue editing").click()


def test_the_front_page_leads_everywhere_and_every_kind_is_found(server: Server, browser: BrowserContext) -> None:
    from tests.apps.pages import list_of, of_kind, stored  # here: needs Django set up

    for kind in KINDS:
        stored(of_kind(kind.key, "one"))
    page = log_in(browser, server)
    links = page.locator("#content-main th a").evaluate_all("found => found.map(one => one.href)")

    answers = {link: page.request.get(link).status for link in links}  # with the session of the page
    assert set(answers.values()) == {200}
    assert len(answers) >= 18
    for kind in KINDS:
        listed = page.request.get(f"{server.url}{list_of(kind.key)}?kind={kind.key}&q=one").text()
        assert re.findall(r"<tr\b", listed.partition("<tbody>")[2].partition("</tbody>")[0]) == ["<tr"], kind.key


def test_a_wrong_effect_is_explained_and_a_right_one_reaches_kubectl(
    server: Server, any_browser: BrowserContext, kubectl: Path
) -> None:
    from tests.apps.pages import found, stored

    stored(cluster("member1", "NoExecute"), cluster("member2"))
    page = log_in(any_browser, server)
    with _Watch(kubectl, server) as seen:
        assert "member1" in seen.next()
        assert "member2" in seen.next()
        open_cluster(page, server, "member1")

        _edit(page, "effect: NoExecute", "effect: NoExec")

        refusal = page.locator(".errorlist")
        expect(refusal).to_contain_text("spec.taints[0].effect")
        expect(refusal).to_contain_text(_said_by_kubectl(kubectl, server))
        expect(page.get_by_label("Manifest")).to_have_value(_containing("effect: NoExec\n"))

        _edit(page, "effect: NoExec\n", "effect: NoSchedule\n")

        expect(page.locator("#content-main")).to_contain_text("no taint evicts copies")
        page.get_by_label("Reason:").fill("it is only slow")
        page.get_by_role("button", name="Save it").click()
        expect(page.locator(".messagelist")).to_contain_text("saved at resourceVersion")
        assert "failed:NoSchedule" in seen.next()
    expect(page.get_by_role("table", name="Timeline").get_by_role("row").nth(1)).to_contain_text("root")
    assert found(Ref(CLUSTER, "", "member1")).spec.taints[0].effect == "NoSchedule"


def test_two_people_edit_one_object(server: Server, any_browser: BrowserContext) -> None:
    from tests.apps.pages import change, found, stored

    made = stored(cluster("member1"))[0]
    page = log_in(any_browser, server)
    open_cluster(page, server, "member1")
    change(made, made.with_spec(region="theirs"))

    _edit(page, "region: eu", "region: mine")

    expect(page.locator(".errornote")).to_contain_text("The object was not saved")
    expect(page.get_by_label("Manifest")).to_have_value(_containing("region: mine"))
    expect(page.get_by_role("region", name="Stored object")).to_contain_text("region: theirs")
    assert found(made.ref).spec.region == "theirs"


def test_a_cluster_is_cordoned_with_a_reason_and_shown_by_the_api(server: Server, any_browser: BrowserContext) -> None:
    from tests.apps.pages import found, stored

    made = stored(cluster("member1"))[0]
    page = log_in(any_browser, server)
    open_cluster(page, server, "member1")

    page.get_by_role("button", name="Cordon", exact=True).click()
    expect(page.locator("#content-main")).to_contain_text("which takes no new copies")
    assert found(made.ref) == made
    page.get_by_label("Reason:").fill("a new kernel")
    page.get_by_role("button", name="Cordon it").click()

    expect(page.locator(".messagelist")).to_contain_text("member1 is cordoned")
    assert [taint.effect for taint in found(made.ref).spec.taints] == ["NoSchedule"]
    page.get_by_role("link", name="API", exact=True).click()
    expect(page.locator("body")).to_contain_text("cluster.karmada.io/unschedulable")


class _Watch:
    """`kubectl get clusters -w`, line by line."""

    def __init__(self, kubectl: Path, server: Server) -> None:
        self.command = [str(kubectl), "--kubeconfig", str(server.kubeconfig), "get", "clusters", "-w", "--no-headers"]
        self.lines: Queue[str] = Queue()

    def __enter__(self) -> _Watch:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        Thread(target=self._read, daemon=True).start()
        return self

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.put(line)

    def next(self) -> str:
        """Return the next line kubectl prints. Raises queue.Empty where none comes."""
        return self.lines.get(timeout=60)

    def __exit__(self, *caught: Any) -> None:
        self.process.terminate()
        self.process.wait(60)


def _said_by_kubectl(kubectl: Path, server: Server) -> str:
    """Return what kubectl prints about the same mistake, from the field's path on."""
    patch = '[{"op": "replace", "path": "/spec/taints/0/effect", "value": "NoExec"}]'
    command = [str(kubectl), "--kubeconfig", str(server.kubeconfig), "patch", "cluster", "member1", "--type=json"]
    done = subprocess.run([*command, "-p", patch], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1, done.stdout
    reported = done.stderr.strip()
    assert "spec.taints[0].effect: " in reported, reported
    return reported[reported.index("spec.taints[0].effect: ") :]


def _containing(text: str) -> re.Pattern[str]:
    return re.compile(re.escape(text))
