"""The environment is read typed, and what cannot be is refused with the variable's name and an example."""

import ast
import base64
import os
import re
import subprocess
from pathlib import Path

import pytest

from config import env, product
from tests import forked

ROOT = Path(env.__file__).parents[1]
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
        "ENGINE": "apps.objects.database",
        **expected,
    }


@pytest.mark.parametrize("url", ["mysql://host/name", "postgresql://host", "nonsense", "postgresql://host:port/name"])
def test_a_url_that_names_no_postgresql_database_is_refused_with_an_example(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(NAME, url)

    with pytest.raises(env.EnvironmentInvalid, match=rf"{NAME}: .*e\.g\. {NAME}=postgresql://"):
        env.database(NAME, default="postgresql:///other")


@pytest.mark.parametrize("password", ["hidden/w+x", "hidden[x", "hidden\u2100x"])
def test_a_password_that_is_not_in_url_escapes_is_not_shown(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    """`openssl rand -base64` makes passwords with a slash, and compose.yaml puts them into a URL."""
    monkeypatch.setenv(NAME, f"postgresql://lifeboat:{password}@postgres:5432/lifeboat")

    with pytest.raises(env.EnvironmentInvalid, match="URL escapes") as caught:
        env.database(NAME, default="postgresql:///other")

    assert "hidden" not in str(caught.value)


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


def test_a_number_beyond_its_largest_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "11")

    assert env.number(NAME, 8, at_least=1, at_most=11) == 11
    with pytest.raises(env.EnvironmentInvalid, match=f"{NAME}: 11 is more than 10; e.g. {NAME}=8"):
        env.number(NAME, 8, at_least=1, at_most=10)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("LIFEBOAT_AUDIT_DAYS", "999999", "999999 is more than 36500"),  # no time is so long ago
        ("LIFEBOAT_TOKEN_DAYS", "9999999", "9999999 is more than 36500"),
        ("LIFEBOAT_OIDC_SESSION_HOURS", "99999999", "99999999 is more than 87600"),
        ("LIFEBOAT_LEASE_SECONDS", "9999999999", "9999999999 is more than 3600"),  # PostgreSQL refuses every session
        ("LIFEBOAT_DATABASE_STATEMENT_SECONDS", "9999999", "9999999 is more than 86400"),
        ("LIFEBOAT_DATABASE_LOCK_SECONDS", "9999999", "9999999 is more than 86400"),
        ("LIFEBOAT_METRICS_PORT", "99999", "99999 is more than 65535"),
        ("LIFEBOAT_LOG_LEVEL", "verbose", '"verbose" is not one of DEBUG, INFO, WARNING, ERROR, CRITICAL'),
        ("LIFEBOAT_AUDIT_FILE", "/nowhere/audit.log", "cannot be written: No such file or directory"),
    ],
)
def test_nothing_starts_with_a_value_that_fails_only_later(variable: str, value: str, said: str) -> None:
    done = settings_read(**{variable: value})

    assert done.returncode != 0
    assert f"EnvironmentInvalid: {variable}: " in done.stderr
    assert said in done.stderr


def test_a_log_level_may_be_written_small() -> None:
    assert settings_read(LIFEBOAT_LOG_LEVEL="debug").returncode == 0


def test_the_short_names_of_log_levels_are_levels_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade of an installation that has one of them let no process start."""
    for given, level in (("WARN", "WARNING"), ("fatal", "CRITICAL")):
        monkeypatch.setenv(NAME, given)

        assert env.log_level(NAME, "INFO") == level


def test_what_has_no_default_must_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)

    with pytest.raises(env.EnvironmentInvalid, match=f"{NAME} is not set; e.g. {NAME}=abc"):
        env.required(NAME, example="abc")


def test_a_list_is_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "a.example, b.example,")

    assert env.words(NAME, default=["c"]) == ["a.example", "b.example"]


def key(length: int = 32) -> str:
    return base64.urlsafe_b64encode(bytes(length)).decode()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "is not set"),
        (" , ", "is not set"),
        ("short", "key 1 is not 32 bytes"),
        (key(31), "key 1 is not 32 bytes"),
        (f"{key()},{key()[:-4]}!", "key 2 is not 32 bytes"),
    ],
)
def test_keys_that_cannot_be_are_refused_by_their_place_and_never_shown(value: str, said: str) -> None:
    with pytest.raises(env.EnvironmentInvalid, match=said) as caught:
        env.keys(NAME, value)

    assert str(caught.value).startswith(NAME)
    assert "openssl rand" in str(caught.value)
    assert "short" not in str(caught.value)


def test_keys_come_in_order_with_and_without_padding() -> None:
    assert env.keys(NAME, f"{key()}, {key().rstrip('=')}") == (key(), key().rstrip("="))


@pytest.mark.parametrize(
    "program",
    [
        ["-m", "celery", "-A", "config", "worker"],
        ["-m", "celery", "-A", "config", "beat"],
        ["-m", "uvicorn", "config.asgi:application"],
        ["manage.py", "members"],
    ],
    ids=["worker", "beat", "api", "members"],
)
def test_nothing_serves_with_a_key_that_cannot_be_one(program: list[str]) -> None:
    malformed = {"LIFEBOAT_SECRET_KEY": "x", "LIFEBOAT_ENCRYPTION_KEYS": "not-a-key"}

    done = forked.python(program, env={**os.environ, **malformed})

    assert done.returncode != 0
    assert "LIFEBOAT_ENCRYPTION_KEYS: key 1 is not 32 bytes of URL-safe base64" in done.stdout + done.stderr
    assert "not-a-key" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("LIFEBOAT_RESOURCE_EVICTON_RATE", "did you mean LIFEBOAT_RESOURCE_EVICTION_RATE?"),
        ("LIFEBOAT_LEASE_SECOND", "did you mean LIFEBOAT_LEASE_SECONDS?"),
        ("LIFEBOAT_XYZZY", "docs/settings.md"),
    ],
)
def test_nothing_starts_with_a_misspelled_variable(variable: str, nearest: str) -> None:
    done = settings_read(**{variable: "1"})

    assert done.returncode != 0
    assert f"{variable}: unknown variable; " in done.stderr
    assert nearest in done.stderr


def settings_read(**more: str) -> subprocess.CompletedProcess[str]:
    """Read the settings in a process of its own, which prints the names of the variables that were read."""
    words = "import config.settings; from config import env; print(*env.names_read())"
    return forked.python(["-c", words], env={**os.environ, "LIFEBOAT_SECRET_KEY": "x", **more})


def test_variables_that_kubernetes_sets_for_a_service_of_that_name_are_left_alone() -> None:
    names = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTPS", "PORT", "PORT_8001_TCP", "PORT_8001_TCP_ADDR")

    env.refuse_unknown({f"LIFEBOAT_{prefix}{name}": "1" for name in names for prefix in ("", "API_")}, known=())
    with pytest.raises(env.EnvironmentInvalid):
        env.refuse_unknown({"LIFEBOAT_PORTS": "1"}, known=())


def test_every_variable_named_in_the_sources_is_known() -> None:
    """A variable that something reads and that is not known could not be set: nothing would start."""
    sources = [ROOT / "Makefile", *(path for path in (ROOT / "docker").rglob("*") if path.is_file())]
    for folder in ("apps", "config", "controlplane", "docs", "tests"):
        sources += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".yaml", ".sh")]
    misspelled = {"LIFEBOAT_RESOURCE_EVICTON_RATE", "LIFEBOAT_LEASE_SECOND", "LIFEBOAT_XYZZY", "LIFEBOAT_PORTS", NAME}
    named = {name for path in sources for name in re.findall(r"\bLIFEBOAT_[A-Z0-9_]*[A-Z0-9]\b", path.read_text())}

    read = set(settings_read().stdout.split())

    assert named - misspelled - read - product.variables() - env.ELSEWHERE == set()


def test_only_this_module_reads_the_environment() -> None:
    """apps/development starts processes and prepares their environment before there are settings; apps/command is a
    client, which has no settings."""
    paths = [*(ROOT / "apps").rglob("*.py"), *(ROOT / "config").rglob("*.py")]
    readers = {str(path.relative_to(ROOT)) for path in paths if _reads_environment(path)}

    others = {name for name in readers if not name.startswith(("apps/command/", "apps/development/"))}
    assert others == {"config/env.py"}


def _reads_environment(path: Path) -> bool:
    """Test whether a file names the environment, except to give a variable a value."""
    text = path.read_text()
    if "environ" not in text and "getenv" not in text:  # to read a file as Python takes long
        return False
    tree = ast.parse(text)
    written = [node.func.value for node in ast.walk(tree) if _is_setdefault(node)]  # type: ignore[attr-defined]
    written += [
        node.value for node in ast.walk(tree) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    ]
    return any(_names_environment(node) and node not in written for node in ast.walk(tree))


def _is_setdefault(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setdefault"


def _names_environment(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="os"), attr="environ" | "environb" | "getenv"):
            return True
        case ast.ImportFrom(module="os", names=names):
            return any(name.name in ("environ", "environb", "getenv") for name in names)
    return False


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example.com", ("mail.example.com", 25, "", "", False, False)),
        ("smtp://a:b%40c@mail.example.com:587?starttls=true", ("mail.example.com", 587, "a", "b@c", False, True)),
        ("smtps://mail.example.com", ("mail.example.com", 465, "", "", True, False)),
    ],
)
def test_a_mail_server_is_a_url(monkeypatch: pytest.MonkeyPatch, url: str, server: tuple[object, ...]) -> None:
    monkeypatch.setenv("MAIL", url)
    assert env.mail_server("MAIL") == server
    monkeypatch.setenv("MAIL", "")
    assert env.mail_server("MAIL") is None


@pytest.mark.parametrize("url", ["mail.example.com", "smtp://:secret@", "smtp://h?tls=yes", "smtp://a:secret@h:port"])
def test_another_url_is_refused_without_its_password(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("MAIL", url)
    with pytest.raises(env.EnvironmentInvalid, match=r"^MAIL: ") as refused:
        env.mail_server("MAIL")
    assert "secret" not in str(refused.value)


def test_addresses_and_choices_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "ftp://user:secret@h/")
    with pytest.raises(env.EnvironmentInvalid, match="HOOK: not an http or https URL") as refused:
        env.address("HOOK")
    assert "secret" not in str(refused.value)
    monkeypatch.setenv("FORM", "xml")
    with pytest.raises(env.EnvironmentInvalid, match=r'FORM: "xml" is not one of json, text; e\.g\. FORM=json$'):
        env.choice("FORM", "json", of=("json", "text"))


def test_addresses_for_notices_without_a_mail_server_stop_the_start() -> None:
    done = settings_read(LIFEBOAT_NOTIFY_EMAIL="operators@example.com")

    assert done.returncode != 0
    assert "LIFEBOAT_NOTIFY_SMTP=smtp://" in done.stderr


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("redis://host", "redis://host"),
        ("redis://:p%2Fw@host:6379/2", "redis://:p%2Fw@host:6379/2"),
        ("rediss://host:6379/0", "rediss://host:6379/0?ssl_cert_reqs=required"),
        ("rediss://host/?ssl_cert_reqs=none", "rediss://host/?ssl_cert_reqs=none"),
        ("rediss://host/0?ssl_ca_certs=/a/b", "rediss://host/0?ssl_ca_certs=%2Fa%2Fb&ssl_cert_reqs=required"),
        ("", "redis://other"),
    ],
)
def test_a_redis_is_a_url_and_over_tls_its_certificate_is_checked(
    monkeypatch: pytest.MonkeyPatch, url: str, read: str
) -> None:
    monkeypatch.setenv(NAME, url)

    assert env.redis(NAME, default="redis://other") == read


@pytest.mark.parametrize(
    "url",
    [
        "valkey:6379",
        "http://host:6379",
        "unix:///run/redis.sock",
        "redis://host:port/0",
        "redis://host:6379/lifeboat",
        "redis://:hidden/w@host:6379/0",
        "redis://:hidden@host:6379/0?protocol=3",
        "redis://:hidden@host:6379/0?ssl_cert_reqs=none",
        "rediss://:hidden@host:6379/0?ssl_cert_reqs=CERT_NONE",
        "rediss://:hidden@host:6379/0?db",
    ],
)
def test_a_url_that_celery_or_the_buckets_cannot_use_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(NAME, url)

    with pytest.raises(env.EnvironmentInvalid, match=f"^{NAME}: ") as caught:
        env.redis(NAME, default="redis://other")

    assert "hidden" not in str(caught.value)


def test_nothing_starts_with_a_redis_url_that_is_none() -> None:
    done = settings_read(REDIS_URL="valkey:6379")

    assert done.returncode != 0
    assert "REDIS_URL: not the URL of a Redis" in done.stderr
