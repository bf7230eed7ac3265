"""The environment is read typed, and what cannot be is refused with the variable's name and an example."""

import pytest

from config import env

NAME = "LIFEBOAT_TEST_VARIABLE"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://ann:s%40fe@db.example:6432/fleet?sslmode=require",
            {
                "NAME": "fleet",
                "USER": "ann",
                "PASSWORD": "s@fe",
                "HOST": "db.example",
                "PORT": "6432",
                "OPTIONS": {"sslmode": "require"},
            },
        ),
        (
            "postgresql://lifeboat@/lifeboat?host=/var/lib/a%20b/socket",
            {
                "NAME": "lifeboat",
                "USER": "lifeboat",
                "PASSWORD": "",
                "HOST": "/var/lib/a b/socket",
                "PORT": "",
                "OPTIONS": {},
            },
        ),
        (
            "postgres:///lifeboat?user=bob&password=x&port=5433",
            {"NAME": "lifeboat", "USER": "bob", "PASSWORD": "x", "HOST": "", "PORT": "5433", "OPTIONS": {}},
        ),
    ],
)
def test_a_database_url_becomes_djangos_settings(
    monkeypatch: pytest.MonkeyPatch, url: str, expected: dict[str, object]
) -> None:
    monkeypatch.setenv(NAME, url)

    assert env.database(NAME, default="postgresql:///other") == {
        "ENGINE": "django.db.backends.postgresql",
        **expected,
    }


@pytest.mark.parametrize("url", ["mysql://host/name", "postgresql://host", "nonsense", "postgresql://host:port/name"])
def test_a_url_that_names_no_postgresql_database_is_refused_with_an_example(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(NAME, url)

    with pytest.raises(env.EnvironmentInvalid, match=rf"{NAME}: .*e\.g\. {NAME}=postgresql://"):
        env.database(NAME, default="postgresql:///other")


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("1", True), ("Off", False), ("", None)])
def test_a_switch_is_read_in_the_usual_spellings(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: bool | None
) -> None:
    monkeypatch.setenv(NAME, value)

    for default in (True, False):
        assert env.flag(NAME, default=default) is (default if expected is None else expected)


def test_a_value_of_the_wrong_type_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "maybe")

    with pytest.raises(env.EnvironmentInvalid, match=f'{NAME}: "maybe" is neither true nor false'):
        env.flag(NAME, default=True)
    with pytest.raises(env.EnvironmentInvalid, match=f'{NAME}: "maybe" is not a whole number'):
        env.number(NAME, 8, at_least=1)


def test_a_number_below_its_least_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "0")

    with pytest.raises(env.EnvironmentInvalid, match=f"{NAME}: 0 is less than 1"):
        env.number(NAME, 8, at_least=1)


def test_what_has_no_default_must_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)

    with pytest.raises(env.EnvironmentInvalid, match=f"{NAME} is not set; e.g. {NAME}=abc"):
        env.required(NAME, example="abc")


def test_a_list_is_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "a.example, b.example,")

    assert env.words(NAME, default=["c"]) == ["a.example", "b.example"]
