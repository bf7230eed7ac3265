"""PostgreSQL and Redis come up from nothing, keep what they hold, and leave nothing behind."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from apps.development.supervise import lifetime, postgres, records, shape
from apps.development.supervise.private import MARK
from tests.supervise.conftest import CommandLine, bare_environment, eventually

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root has to become another user for PostgreSQL")


def ask(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question).fetchone()  # type: ignore[call-overload]
    return row[0]


def running(supervise: CommandLine) -> list[records.Record]:
    return [record for record in records.read_records(supervise.home.run) if record.alive()]


def modes_up_to_root(*paths: Path) -> dict[Path, tuple[int, int]]:
    """Return mode and owner of every folder above the paths."""
    found = {folder: folder.stat() for path in paths for folder in path.resolve().parents}
    return {folder: (stat.S_IMODE(status.st_mode), status.st_uid) for folder, status in found.items()}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """Running servers that tests look at and leave as they are."""
    command = CommandLine(tmp_path_factory.mktemp("services") / "lifeboat")
    try:
        command("services")
        yield command
    finally:
        command("clean")


def test_both_servers_come_up_and_the_printed_lines_reach_them(up: CommandLine) -> None:
    printed = up("services", "--export").stdout

    shell = f'{printed}\nprintf "%s\\n%s" "$DATABASE_URL" "$REDIS_URL"'
    database, store = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True).stdout.split()
    assert ask(database, "SELECT current_database()") == "lifeboat"
    assert redis.Redis.from_url(store).ping()


def test_the_role_may_create_databases_and_the_server_is_durable(up: CommandLine) -> None:
    url = up.environment()["DATABASE_URL"]

    assert ask(url, "SELECT rolcreatedb FROM pg_roles WHERE rolname = current_user") is True
    assert [ask(url, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "listen_addresses")] == [
        "on",
        "on",
        "",
    ]
    assert int(str(ask(url, "SHOW server_version_num"))) >= 150000


def test_the_server_has_no_process_that_only_waits(up: CommandLine) -> None:
    types = "SELECT string_agg(backend_type, ', ') FROM pg_stat_activity WHERE backend_type <> 'client backend'"

    found = str(ask(up.environment()["DATABASE_URL"], types))

    assert "checkpointer" in found
    assert "io worker" not in found
    assert "logical replication launcher" not in found


def test_an_older_server_gets_no_setting_that_it_does_not_know() -> None:
    assert "io_method" not in postgres.settings_of("17.6")
    assert postgres.settings_of("18beta1")["io_method"] == "sync"


def test_starting_twice_gives_the_same_servers(up: CommandLine) -> None:
    first = up("services").stdout
    pids = {record.name: record.pid for record in running(up)}

    assert up("services").stdout == first
    assert {record.name: record.pid for record in running(up)} == pids
    assert set(pids) == {"postgres", "redis"}


def test_stopping_ends_both_and_a_later_start_finds_the_data(supervise: CommandLine) -> None:
    supervise("services")
    url = supervise.environment()["DATABASE_URL"]
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    started = running(supervise)

    supervise("services", "--stop")

    assert len(started) == 2
    assert not any(record.alive() for record in started)
    assert records.read_records(supervise.home.run) == []
    supervise("services")
    assert ask(supervise.environment()["DATABASE_URL"], "SELECT answer FROM kept") == 42


def test_redis_wants_the_password_and_the_process_list_does_not_show_it(up: CommandLine) -> None:
    url = up.environment()["REDIS_URL"]
    client = redis.Redis.from_url(url)
    password, port = client.get_connection_kwargs()["password"], client.get_connection_kwargs()["port"]

    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=port, retry=Retry(NoBackoff(), 0)).ping()

    listing = subprocess.run(["ps", "-A", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert password not in listing


def test_a_crashed_server_is_started_again_at_the_same_address(up: CommandLine) -> None:
    url = up.environment()["REDIS_URL"]
    crashed = up.record("redis")

    os.kill(crashed.pid, signal.SIGKILL)

    eventually(lambda: up.record("redis").pid != crashed.pid)
    eventually(lambda: answers(url))


def answers(url: str) -> bool:
    try:
        return bool(redis.Redis.from_url(url).ping())
    except redis.ConnectionError:
        return False


@pytest.mark.skipif(not records.LINUX, reason="only Linux tells a child that its parent died")
def test_a_killed_supervisor_leaves_no_server_behind(supervise: CommandLine) -> None:
    supervise("services")
    holder, started = supervise.home.holder(), running(supervise)
    assert holder is not None

    os.kill(holder, signal.SIGKILL)

    eventually(lambda: not any(record.alive() for record in started))


def test_after_a_crash_of_the_supervisor_the_next_start_has_the_data(supervise: CommandLine) -> None:
    supervise("services")
    with psycopg.connect(supervise.environment()["DATABASE_URL"]) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    holder, before = supervise.home.holder(), running(supervise)
    assert holder is not None
    os.kill(holder, signal.SIGKILL)
    eventually(lambda: not supervise.home.locked())

    supervise("services")

    assert ask(supervise.environment()["DATABASE_URL"], "SELECT answer FROM kept") == 42
    assert not any(record.alive() for record in before)


def test_servers_named_by_the_environment_are_taken_and_nothing_is_started(supervise: CommandLine) -> None:
    named = {"DATABASE_URL": "postgresql://ann@db.example/fleet", "REDIS_URL": "redis://store.example:6379/0"}

    supervise("services", **named)

    assert supervise.environment() == named
    assert running(supervise) == []


def test_servers_end_with_the_process_that_asked_for_them(supervise: CommandLine) -> None:
    asking = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time; subprocess.Popen(sys.argv[1:], start_new_session=True); time.sleep(600)",
            *supervise.argv("services", "--foreground", "--with-parent", "--throwaway"),
        ],
        cwd=lifetime.PROJECT,
        env=bare_environment(),
        stdout=subprocess.DEVNULL,
    )
    eventually(lambda: supervise.home.published() is not None, within=300)
    started = running(supervise)

    asking.kill()
    asking.wait()

    assert len(started) == 2
    eventually(lambda: not any(record.alive() for record in started))
    eventually(lambda: not supervise.home.root.exists())


def test_no_user_is_made_and_no_permission_changed(supervise: CommandLine) -> None:
    wheel = postgres.wheel_binaries()
    assert wheel is not None
    supervise.home.create()
    users = Path("/etc/passwd").read_bytes()
    watched = [supervise.home.root, wheel / "postgres", Path("/var/lib/x"), Path("/tmp/x")]
    before = modes_up_to_root(*watched)

    supervise("services")

    assert modes_up_to_root(*watched) == before
    assert Path("/etc/passwd").read_bytes() == users


def test_data_and_socket_are_closed_to_everybody_else(up: CommandLine) -> None:
    url = up.environment()["DATABASE_URL"]
    sockets = Path(url.partition("?host=")[2])

    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert stat.S_IMODE((up.home.root / "postgres").stat().st_mode) == 0o700
    assert stat.S_IMODE(up.home.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(up.home.ready_file.stat().st_mode) == 0o600


def test_a_deep_folder_still_gets_a_socket_the_kernel_takes(supervise: CommandLine, tmp_path: Path) -> None:
    deep = CommandLine(tmp_path / ("deep" * 12) / ("folder" * 12))
    try:
        deep("services", "--throwaway")
        assert ask(deep.environment()["DATABASE_URL"], "SELECT 1") == 1
    finally:
        deep("clean")

    assert not deep.home.root.exists()


@as_root
def test_binaries_the_servers_user_may_not_read_are_copied_not_opened(supervise: CommandLine, tmp_path: Path) -> None:
    wheel = postgres.wheel_binaries()
    assert wheel is not None
    package = wheel.parent.parent
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(package, closed / package.name, symlinks=True)
    shutil.copytree(package.with_name(f"{package.name}.libs"), closed / f"{package.name}.libs", symlinks=True)
    before = modes_up_to_root(closed / package.name / "pginstall" / "bin" / "postgres")

    supervise("services", PYTHONPATH=str(closed))

    said = (supervise.home.logs / "supervisor.log").read_text()
    assert ask(supervise.environment()["DATABASE_URL"], "SELECT 1") == 1
    assert str(closed) not in said.partition("PostgreSQL")[2]
    assert modes_up_to_root(closed / package.name / "pginstall" / "bin" / "postgres") == before


@as_root
def test_data_of_a_run_removed_by_hand_is_swept(supervise: CommandLine, tmp_path: Path) -> None:
    removed = CommandLine(tmp_path / "removed")
    removed("services")
    kept = (removed.home.root / "postgres").resolve()
    removed("services", "--stop")
    shutil.rmtree(removed.home.root)
    os.utime(kept / MARK, (0, 0))

    supervise("services")

    assert not kept.exists()
    assert ask(supervise.environment()["DATABASE_URL"], "SELECT 1") == 1


def test_without_any_postgresql_the_message_says_the_three_ways_out(supervise: CommandLine, tmp_path: Path) -> None:
    done = supervise("services", "--foreground", ok=False, LIFEBOAT_POSTGRES_BIN=str(tmp_path))

    assert "set DATABASE_URL (e.g. postgresql://" in done.stderr
    assert "requirements-embedded.txt" in done.stderr
    assert "Traceback" not in done.stderr
    assert running(supervise) == []


def test_data_of_another_version_is_refused_not_touched(supervise: CommandLine) -> None:
    supervise("services")
    supervise("services", "--stop")
    made_by = supervise.home.root / "postgres" / "data" / "PG_VERSION"
    made_by.write_text("14\n")

    done = supervise("services", "--foreground", ok=False)

    assert "was created by PostgreSQL 14" in done.stderr
    assert "make clean" in done.stderr


def test_a_pid_file_of_a_server_long_gone_does_not_stop_the_next_start(supervise: CommandLine) -> None:
    supervise("services")
    supervise("services", "--stop")
    data = supervise.home.root / "postgres" / "data"
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n0\n5432\n\n\n\nready\n")

    supervise("services")

    assert ask(supervise.environment()["DATABASE_URL"], "SELECT 1") == 1


def test_only_data_of_ours_prepared_for_this_very_code_lets_others_start_beside_migrations(
    supervise: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = supervise.home
    home.create()
    assert not shape.is_current(home, "these data")

    shape.remember(home, "these data")
    assert shape.is_current(home, "these data")
    assert not shape.is_current(home, "data made again")
    assert not shape.is_current(home, None), "DATABASE_URL may name another database each time"

    monkeypatch.setattr(shape, "wanted", lambda: "one migration more")
    assert not shape.is_current(home, "these data")


def test_clean_removes_everything_also_what_lies_outside(supervise: CommandLine) -> None:
    supervise("services")
    kept = (supervise.home.root / "postgres").resolve()
    started = running(supervise)

    supervise("clean")

    assert not supervise.home.root.exists()
    assert not kept.exists()
    assert not any(record.alive() for record in started)
