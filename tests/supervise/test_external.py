"""`make up` with DATABASE_URL and REDIS_URL: servers of the user are used, with passwords, and left as they were."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
import redis

from apps.development.supervise import postgres, records
from apps.development.supervise import redis as redis_server
from apps.development.supervise.ports import LOOPBACK, free_port
from apps.development.supervise.stack import STARTED
from tests.supervise.conftest import CommandLine, eventually
from tests.supervise.test_stack import clusters, status_of

pytestmark = pytest.mark.slow
PASSWORD = "of another: @/%"
QUOTED = quote(PASSWORD, safe="")
TABLES = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"


@dataclass(frozen=True)
class GivenServers:
    """Servers that were not started here, on TCP, with a password each, and with something in them."""

    database_port: int
    redis_port: int
    processes: tuple[subprocess.Popen[bytes], ...]

    @property
    def urls(self) -> dict[str, str]:
        return {
            "DATABASE_URL": f"postgresql://ann:{QUOTED}@{LOOPBACK}:{self.database_port}/fleet",
            "REDIS_URL": f"redis://:{QUOTED}@{LOOPBACK}:{self.redis_port}/3",
        }

    def ask(self, question: str, *, database: str) -> object:
        where = {"host": LOOPBACK, "port": self.database_port, "user": "ann", "password": PASSWORD, "dbname": database}
        with psycopg.connect(**where, autocommit=True) as connection:  # type: ignore[arg-type]
            cursor = connection.execute(question)  # type: ignore[call-overload]
            return cursor.fetchone()[0] if cursor.description else None

    def store(self, number: int) -> redis.Redis:
        return redis.Redis(host=LOOPBACK, port=self.redis_port, password=PASSWORD, db=number)


@pytest.fixture(scope="module")
def given_servers() -> Iterator[GivenServers]:
    """PostgreSQL and Redis as an administrator sets them up, with a database, a table and a key of their own."""
    account = postgres.server_account()
    folder = Path(tempfile.mkdtemp(prefix="given_servers-"))
    os.chown(folder, account.uid, account.gid)
    binaries, _ = postgres.find_binaries(account, folder)
    (folder / "password").write_text(PASSWORD)
    os.chown(folder / "password", account.uid, account.gid)
    options = ("--auth=scram-sha-256", "--username=ann", f"--pwfile={folder / 'password'}", "--no-sync")
    made = account.run(binaries / "initdb", "-D", folder / "data", *options)
    assert made.returncode == 0, made.stderr

    database_port, redis_port = free_port(15432), free_port(16379)
    server = [binaries / "postgres", "-D", folder / "data", "-p", str(database_port), "-k", ""]
    user = {"user": account.uid, "group": account.gid} if account.changes else {}
    (folder / "redis.conf").write_text(f'bind {LOOPBACK}\nport {redis_port}\nrequirepass "{PASSWORD}"\nsave ""\n')
    store = [redis_server.find_binary()[0], folder / "redis.conf"]
    with (folder / "log").open("wb") as log:
        processes = (
            subprocess.Popen(server, cwd="/", stdout=log, stderr=log, **user),  # type: ignore[call-overload]
            subprocess.Popen(store, cwd="/", stdout=log, stderr=log),
        )
    made_here = GivenServers(database_port, redis_port, processes)
    try:
        eventually(lambda: answers(made_here))
        for name in ("fleet", "others"):
            made_here.ask(f"CREATE DATABASE {name}", database="postgres")
        made_here.ask("CREATE TABLE kept AS SELECT 42 AS answer", database="others")
        made_here.store(0).set("kept", "42")
        yield made_here
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
            process.wait(60)
        shutil.rmtree(folder)


def answers(servers: GivenServers) -> bool:
    try:
        return servers.ask("SELECT true", database="postgres") is True and bool(servers.store(0).ping())
    except (psycopg.OperationalError, redis.RedisError):
        return False


def everything_said(supervise: CommandLine) -> str:
    return "".join(log.read_text(errors="replace") for log in supervise.home.logs.glob("*.log"))


def test_given_servers_are_used_and_left_running_and_clean(supervise: CommandLine, given_servers: GivenServers) -> None:
    said = supervise("up", **given_servers.urls).stdout
    facts = supervise.home.published()
    assert facts is not None
    listing = subprocess.run(["ps", "-A", "-o", "args"], capture_output=True, text=True, check=True).stdout

    assert "PostgreSQL: the server in DATABASE_URL" in said
    assert "Redis: the server in REDIS_URL" in said
    assert {record.name for record in records.read_records(supervise.home.run)} == set(STARTED)
    assert status_of(f"{facts['api']}/admin/login/") == 200
    eventually(lambda: set(clusters(supervise).values()) == {"True"})  # beat, worker and members at work
    for word in (PASSWORD, QUOTED):
        assert word not in said + everything_said(supervise) + listing

    supervise("down")

    assert [process.poll() for process in given_servers.processes] == [None, None]
    assert int(str(given_servers.ask(TABLES, database="fleet"))) > 20
    assert given_servers.ask("SELECT answer FROM kept", database="others") == 42
    assert [given_servers.ask(TABLES, database=name) for name in ("others", "postgres")] == [1, 0]
    assert given_servers.store(0).keys() == [b"kept"]
    assert "up after" in supervise("up", **given_servers.urls).stdout
    assert set(clusters(supervise)) == {"member1", "member2", "member3"}


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("DATABASE_URL", f"postgresql://ann:{QUOTED}@{LOOPBACK}:1/fleet"),
        ("REDIS_URL", f"redis://:{QUOTED}@{LOOPBACK}:1/0"),
    ],
)
def test_a_server_that_is_not_there_is_named_by_its_variable_without_its_password(
    supervise: CommandLine, name: str, url: str
) -> None:
    done = supervise("run", ok=False, **{name: url})

    assert f"in {name}: " in done.stderr
    assert "refused" in done.stderr
    assert "Traceback" not in done.stderr
    assert QUOTED not in done.stderr + done.stdout + everything_said(supervise)
    assert not any(record.alive() for record in records.read_records(supervise.home.run))


def test_a_wrong_password_is_said_so(supervise: CommandLine, given_servers: GivenServers) -> None:
    wrong = {name: url.replace(QUOTED, "guessed") for name, url in given_servers.urls.items()}

    store = supervise("run", ok=False, REDIS_URL=wrong["REDIS_URL"])
    database = supervise("run", ok=False, DATABASE_URL=wrong["DATABASE_URL"])

    assert "cannot connect to the Redis in REDIS_URL" in store.stderr
    assert "invalid username-password pair" in store.stderr
    assert 'password authentication failed for user "ann"' in database.stderr
    assert "guessed" not in store.stderr + database.stderr + everything_said(supervise)
