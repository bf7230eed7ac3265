"""Each kind × verb × role: the answers of a kube-apiserver (tests/rbac), and a reviewed table for our own kinds."""

from __future__ import annotations

from controlplane.authorization.attributes import AUTHENTICATED, Caller, Request
from tests.rbac.own_kinds import LETTERS, ROLES, TABLE, asked, policy, rows, served
from tests.rbac.questions import DEFAULT_KINDS


def test_every_served_kind_and_subresource_is_in_one_of_the_tables() -> None:
    assert served() - asked() == set()


def test_each_role_may_do_with_each_kind_of_this_product_what_the_table_says() -> None:
    assert "\n".join(rows()) + "\n" == TABLE.read_text(), "review the change: python -m tests.rbac.own_kinds"


def test_a_role_of_operators_changes_no_built_in_kind_and_reads_no_secret() -> None:
    readable = {
        ("", "namespaces"),
        ("", "nodes"),
        ("", "events"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    }
    own_reviews = {"selfsubjectaccessreviews"}  # of every user with a login
    for role in (one for one in ROLES if one.startswith("lifeboat:")):
        caller = Caller(role, (AUTHENTICATED,))
        for group, resource, subresource in DEFAULT_KINDS:
            for verb in LETTERS:
                allowed = policy().authorize(caller, Request(verb, group, resource, subresource)).allowed
                may_read = (group, resource) in readable and not subresource and verb in ("get", "list", "watch")
                is_own = resource in own_reviews and verb == "create"
                assert allowed is (may_read or is_own), (role, verb, group, resource, subresource)


def test_without_a_role_nothing_built_in_is_allowed_but_questions_about_oneself() -> None:
    caller = Caller("none", (AUTHENTICATED,))
    allowed = {
        (verb, resource)
        for group, resource, subresource in DEFAULT_KINDS
        for verb in LETTERS
        if policy().authorize(caller, Request(verb, group, resource, subresource)).allowed
    }

    assert allowed == {("create", "selfsubjectaccessreviews")}


def test_a_reader_of_the_fleet_does_not_read_a_work_by_its_status() -> None:
    for role in ("lifeboat:viewer", "lifeboat:operator"):
        for subresource in ("", "status"):
            request = Request("get", "work.karmada.io", "works", subresource)
            assert not policy().authorize(Caller(role), request).allowed
