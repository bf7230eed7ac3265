"""Checks of bearer tokens are remembered for less than a second, and not beyond a write that may end a login."""

from __future__ import annotations

from typing import Any

from apps.api.bearer import Credential
from apps.api.remembered import FRESH_SECONDS, MOST_KNOWN, VALID_SECONDS, Remembered, may_end_credentials

EVE = Credential("eve", "digest")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_check_counts_for_less_than_a_second() -> None:
    clock = Clock()
    remembered = Remembered(clock)
    assert remembered.find("Bearer a") is None
    assert remembered.check("Bearer a", lambda: EVE) == EVE

    clock.now += FRESH_SECONDS - 0.01
    assert remembered.find("Bearer a") == (EVE, 100.0)
    assert remembered.find("Bearer b") is None
    clock.now += 0.02
    assert remembered.find("Bearer a") is None
    stale = remembered.find("Bearer a", within=VALID_SECONDS)
    assert stale is not None
    assert not remembered.is_fresh(stale)
    clock.now = 100.0 + VALID_SECONDS
    assert VALID_SECONDS < 1
    assert remembered.find("Bearer a", within=VALID_SECONDS) is None


def test_the_time_of_a_check_counts_from_its_beginning() -> None:
    clock = Clock()
    remembered = Remembered(clock)

    def slow() -> Credential:
        clock.now += VALID_SECONDS
        return EVE

    assert remembered.check("Bearer a", slow) == EVE
    assert remembered.find("Bearer a", within=VALID_SECONDS) is None


def test_a_write_ends_all_checks_also_those_that_have_begun() -> None:
    remembered = Remembered(Clock())
    remembered.check("Bearer a", lambda: EVE)
    remembered.forget()
    assert remembered.find("Bearer a") is None

    def revoked_meanwhile() -> Credential:
        remembered.forget()
        return EVE

    remembered.check("Bearer a", revoked_meanwhile)
    assert remembered.find("Bearer a") is None


def test_a_refused_token_ends_its_earlier_check() -> None:
    remembered = Remembered(Clock())
    remembered.check("Bearer a", lambda: EVE)
    assert remembered.check("Bearer a", lambda: None) is None
    assert remembered.find("Bearer a") is None


def test_the_tokens_that_were_checked_first_are_forgotten_first() -> None:
    remembered = Remembered(Clock())
    for number in range(MOST_KNOWN + 1):
        remembered.check(f"Bearer {number}", lambda: EVE)
    assert remembered.find("Bearer 0") is None
    assert remembered.find("Bearer 1") is not None


def test_only_writes_that_may_end_a_login_make_checks_count_no_more() -> None:
    def may(method: str, path: str, *, is_object: bool = True) -> bool:
        environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path}
        return may_end_credentials(environ, is_object=is_object)

    assert not may("POST", "/api/v1/namespaces/default/configmaps")
    assert not may("GET", "/api/v1/namespaces/default/secrets/one")
    assert not may("GET", "/admin/", is_object=False)
    assert may("DELETE", "/api/v1/namespaces/default/serviceaccounts/one")
    assert may("DELETE", "/api/v1/namespaces/default/secrets")
    assert may("DELETE", "/apis/cluster.karmada.io/v1alpha1/clusters/member1")
    assert may("POST", "/admin/auth/user/1/change/", is_object=False)
    assert may("DELETE", "/apis/failover.lifeboat.io/v1alpha1/credentials/token-1", is_object=False)
