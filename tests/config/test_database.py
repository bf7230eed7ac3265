"""How the product connects to PostgreSQL: what DATABASE_URL says, and what it relies on itself."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from config import env

SETTINGS = Path(env.__file__).parent / "settings" / "__init__.py"


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the options of libpq where DATABASE_URL has these parameters."""

    def read(parameters: str, **variables: str) -> dict[str, Any]:
        for name, value in {"DATABASE_URL": f"postgresql://db.example/fleet?{parameters}", **variables}.items():
            monkeypatch.setenv(name, value)
        found: dict[str, Any] = runpy.run_path(str(SETTINGS))["DATABASES"]["default"]["OPTIONS"]
        return found

    return read


def test_options_of_the_url_count_beside_those_the_product_relies_on(options: Any) -> None:
    reported = options("options=-c%20search_path%3Dfleet")["options"]

    assert reported.startswith("-c search_path=fleet -c enable_seqscan=off ")


def test_a_session_paused_within_a_transaction_ends_with_the_lease(options: Any) -> None:
    reported = options("", LIFEBOAT_LEASE_SECONDS="7")["options"]

    assert "-c idle_in_transaction_session_timeout=7s" in reported


@pytest.mark.parametrize(
    ("variables", "lock", "statement"),
    [
        ({}, "10s", "60s"),
        ({"LIFEBOAT_DATABASE_LOCK_SECONDS": "3", "LIFEBOAT_DATABASE_STATEMENT_SECONDS": "20"}, "3s", "20s"),
    ],
)
def test_a_session_waits_for_locks_and_statements_no_longer_than_its_limits(
    options: Any, variables: dict[str, str], lock: str, statement: str
) -> None:
    reported = options("", **variables)["options"].split(" -c ")

    assert {f"lock_timeout={lock}", f"statement_timeout={statement}"} <= set(reported)


def test_a_server_that_says_nothing_any_more_is_given_up_in_half_a_minute_unless_the_url_says_otherwise(
    options: Any,
) -> None:
    usual, own = options("sslmode=verify-full"), options("tcp_user_timeout=90000")

    silence = usual["keepalives_idle"] + usual["keepalives_interval"] * usual["keepalives_count"]
    assert (silence, usual["tcp_user_timeout"], usual["sslmode"]) == (25, 25_000, "verify-full")
    assert own["tcp_user_timeout"] == "90000"
