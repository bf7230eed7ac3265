"""Processes: started, restarted, ended; strangers are never touched."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.development.supervise import ports, records
from apps.development.supervise.errors import SuperviseError
from apps.development.supervise.private import MARK, private_folder
from apps.development.supervise.processes import Program, Supervisor
from apps.development.supervise.run_folder import RunFolder
from tests.supervise.conftest import CommandLine, eventually

SLEEP = ("sleep", "600")
STUBBORN = "trap '' TERM; sleep 600 & echo up; while :; do wait; done"


@pytest.fixture
def home(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "lifeboat")
    made.create()
    return made


@pytest.fixture
def supervisor(home: RunFolder) -> Iterator[Supervisor]:
    made = Supervisor(home, say=lambda line: None)
    yield made
    made.stop()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does not belong to this run."""
    process = subprocess.Popen(SLEEP, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def group_members(leader: int) -> list[str]:
    """Return what still runs in a process group; a zombie waiting for init does not run."""
    listing = subprocess.run(["ps", "-A", "-o", "pgid=,stat=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listing.splitlines()]
    return [args for group, state, args in rows if int(group) == leader and not state.startswith("Z")]


def record_of(process: subprocess.Popen[bytes], *, started: str | None = None, token: str = "t") -> records.Record:
    return records.Record(
        name="worker",
        pid=process.pid,
        started=started or records.started(process.pid) or "",
        token=token,
        stop_signal=signal.SIGTERM,
        group=True,
    )


def test_what_was_started_is_recorded_and_ended(home: RunFolder, supervisor: Supervisor) -> None:
    supervisor.start(Program("one", SLEEP), Program("two", SLEEP))
    found = records.read_records(home.run)

    supervisor.stop()

    assert [record.name for record in found] == ["one", "two"]
    assert not any(record.alive() for record in found)
    assert records.read_records(home.run) == []


def test_a_process_deaf_to_sigterm_is_killed_with_its_children(home: RunFolder, supervisor: Supervisor) -> None:
    log = home.logs / "stubborn.log"
    supervisor.start(Program("stubborn", ("sh", "-c", STUBBORN), ready=lambda: "up" in log.read_text(), grace=0.2))
    leader = supervisor.pid("stubborn")
    assert len(group_members(leader)) == 2

    supervisor.stop()

    eventually(lambda: group_members(leader) == [])


def test_a_process_that_ends_at_once_is_reported_with_the_end_of_its_log(supervisor: Supervisor) -> None:
    program = Program("broken", ("sh", "-c", "echo no such table; exit 3"), ready=lambda: False)

    with pytest.raises(SuperviseError, match=r"(?s)broken ended with status 3.*no such table"):
        supervisor.start(program)


def test_a_process_that_is_never_ready_is_reported(supervisor: Supervisor) -> None:
    with pytest.raises(SuperviseError, match=r"slow is not ready after 0\.1 s"):
        supervisor.start(Program("slow", SLEEP, ready=lambda: False, ready_within=0.1))


def test_what_has_one_thing_to_do_is_awaited_and_forgotten(home: RunFolder, supervisor: Supervisor) -> None:
    supervisor.launch(Program("once", ("sh", "-c", "echo done")))

    supervisor.await_end("once")

    assert home.log("once").read_text() == "done\n"
    assert records.read_records(home.run) == []


def test_what_has_one_thing_to_do_and_fails_is_reported(supervisor: Supervisor) -> None:
    supervisor.launch(Program("once", ("sh", "-c", "echo no such table; exit 3")))

    with pytest.raises(SuperviseError, match=r"(?s)once ended with status 3.*no such table"):
        supervisor.await_end("once")


def test_a_program_that_does_not_exist_is_reported_by_name(supervisor: Supervisor) -> None:
    with pytest.raises(SuperviseError, match="ghost: cannot start /no/such/program"):
        supervisor.start(Program("ghost", ("/no/such/program",)))


def test_each_crash_in_a_row_waits_longer_before_the_restart(home: RunFolder) -> None:
    assert back_offs(home, Program("crashing", ("sh", "-c", "exit 1"))) == ["0.5", "1", "2"]


def test_a_crash_after_a_stable_time_counts_as_the_first_one(home: RunFolder) -> None:
    """Without that, a program that is killed every half a minute would be away for most of the time."""
    assert back_offs(home, Program("killed", ("sh", "-c", "sleep 0.3"), stable_after=0.2)) == ["0.5", "0.5", "0.5"]


def back_offs(home: RunFolder, program: Program) -> list[str]:
    """Return for how many seconds the supervisor waits after each of the first three crashes."""
    said: list[str] = []
    supervisor = Supervisor(home, say=said.append)
    supervisor.start(program)

    def stop_after_three() -> None:
        eventually(lambda: len(said) >= 3)
        supervisor.stopping = True

    watcher = threading.Thread(target=stop_after_three)
    watcher.start()
    supervisor.watch()
    watcher.join()
    supervisor.stop()

    return [line.partition("again in ")[2].split(" ")[0] for line in said[:3]]


def test_what_a_crashed_run_left_is_ended_with_its_children(home: RunFolder) -> None:
    own = {**os.environ, records.TOKEN_VARIABLE: "t"}
    left = subprocess.Popen(("sh", "-c", "sleep 600 & sleep 600"), env=own, start_new_session=True)
    record_of(left).write(home.run)
    eventually(lambda: len(group_members(left.pid)) == 3)

    ended = Supervisor(home).end_stale()

    assert ended == ["worker"]
    assert left.wait(60) == -signal.SIGTERM
    eventually(lambda: group_members(left.pid) == [])
    assert records.read_records(home.run) == []


@pytest.mark.skipif(not records.LINUX, reason="sessions are searched through /proc")
def test_children_whose_leader_is_gone_are_ended_too(home: RunFolder) -> None:
    own = {**os.environ, records.TOKEN_VARIABLE: "t"}
    command = ("sh", "-c", "sleep 600 & echo $!; exec sleep 600")
    left = subprocess.Popen(command, env=own, start_new_session=True, stdout=subprocess.PIPE, text=True)
    assert left.stdout is not None
    child = int(left.stdout.readline())
    record_of(left).write(home.run)  # type: ignore[arg-type]
    left.kill()
    left.wait()
    left.stdout.close()
    assert records.started(child) is not None

    Supervisor(home).end_stale()

    eventually(lambda: records.started(child) is None)


def test_a_recycled_pid_is_left_alone(home: RunFolder, stranger: subprocess.Popen[bytes]) -> None:
    record_of(stranger, started="another start").write(home.run)

    ended = Supervisor(home).end_stale()

    assert ended == []
    assert stranger.poll() is None


def test_a_torn_record_is_no_record(home: RunFolder, stranger: subprocess.Popen[bytes]) -> None:
    (home.run / "worker.json").write_text(f'{{"name": "worker", "pid": {stranger.pid}')

    assert Supervisor(home).end_stale() == []
    assert stranger.poll() is None


def test_a_folder_has_one_supervisor(supervise: CommandLine) -> None:
    supervise("services", DATABASE_URL="postgresql://a@b/c", REDIS_URL="redis://b")

    done = supervise("services", "--foreground", ok=False)

    assert "already running" in done.stderr
    assert f"pid {supervise.home.holder()}" in done.stderr


def test_what_a_crashed_supervisor_published_is_not_taken_for_its_successors(home: RunFolder) -> None:
    """A start in the background once returned at once with the addresses of the run that had crashed."""
    somebody = RunFolder(home.root)
    (home.run / "lock").write_text("4194305 long-ago")
    home.publish({"api": "of the crashed run"})

    with (home.run / "lock").open() as successor:
        fcntl.flock(successor, fcntl.LOCK_EX)  # it has the lock and has not yet written who it is
        assert somebody.published() is None

    assert home.lock()
    assert somebody.holder() == os.getpid()
    assert somebody.published() is None

    home.publish({"api": "of this run"})
    assert somebody.published() == {"api": "of this run"}


def test_down_where_nothing_runs_says_so(supervise: CommandLine) -> None:
    assert supervise("down").stdout == "nothing was running\n"


def test_env_where_nothing_runs_names_the_way_out(supervise: CommandLine) -> None:
    assert "make up" in supervise("env", ok=False).stderr


def test_a_folder_that_is_not_ours_is_neither_used_nor_removed(supervise: CommandLine) -> None:
    supervise.home.root.mkdir()
    (supervise.home.root / "thesis.txt").write_text("years of work")

    assert "was not created by Lifeboat" in supervise("services", "--foreground", ok=False).stderr
    assert "it is not removed" in supervise("clean", ok=False).stderr

    assert (supervise.home.root / "thesis.txt").read_text() == "years of work"


def test_a_private_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    elsewhere, link, wide = tmp_path / "elsewhere", tmp_path / "link", tmp_path / "open"
    elsewhere.mkdir(mode=0o700)
    link.symlink_to(elsewhere)
    wide.mkdir()
    wide.chmod(0o755)

    for planted in (link, wide):
        with pytest.raises(SuperviseError, match="mode 0700"):
            private_folder(planted, owner=os.getuid(), home=tmp_path)

    made = private_folder(tmp_path / "new", owner=os.getuid(), home=tmp_path)
    assert private_folder(made, owner=os.getuid(), home=tmp_path) == made
    assert (made / MARK).read_text() == str(tmp_path)


@pytest.mark.parametrize("marked", [None, "", "whole"])
@pytest.mark.parametrize("theirs", [False, True], ids=["our own", "of the server's user"])
def test_a_private_folder_is_completed_that_a_killed_process_has_begun(
    tmp_path: Path, marked: str | None, theirs: bool
) -> None:
    """As root, every later start failed until a person removed the folder."""
    if theirs and os.getuid() != 0:
        pytest.skip("only root can give a folder to another user")
    owner, begun = 65534 if theirs else os.getuid(), tmp_path / "begun"
    begun.mkdir(mode=0o700)
    if marked is not None:
        (begun / MARK).write_text(str(tmp_path) if marked else "")

    assert private_folder(begun, owner=owner, home=tmp_path) == begun

    assert (begun.stat().st_uid, (begun / MARK).read_text()) == (owner, str(tmp_path))


def test_two_starts_in_one_moment_get_ports_of_their_own() -> None:
    with ports.claimed_port(18_101) as one, ports.claimed_port(18_101) as other:
        assert one != other

    with ports.claimed_port(one) as again:
        assert again == one


def test_a_taken_port_is_passed_over() -> None:
    import socket

    usual = ports.free_port(18001)
    with socket.socket() as taken:
        taken.bind((ports.LOOPBACK, usual))
        taken.listen()

        assert ports.answers(usual)
        assert ports.free_port(usual) > usual
    assert not ports.answers(usual)


def test_secrets_are_made_once_and_closed_to_others(home: RunFolder) -> None:
    first = home.secret("admin")

    assert len(first) >= 32
    assert RunFolder(home.root).secret("admin") == first
    assert (home.root / "secrets" / "admin").stat().st_mode & 0o077 == 0


def test_the_supervisor_needs_nothing_but_the_standard_library() -> None:
    script = (
        "import sys, apps.development.supervise.__main__\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "['__main__', 'apps']" or done.stdout.strip() == "['apps']"
