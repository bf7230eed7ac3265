"""`python -m apps.development.supervise run|up|down|clean|env|services|fault`; the Makefile's targets call these."""

import argparse
import os
import sys
import time
from pathlib import Path

from apps.development.supervise import lifetime, stack
from apps.development.supervise.errors import SuperviseError
from apps.development.supervise.private import MARK
from apps.development.supervise.processes import Supervisor
from apps.development.supervise.run_folder import RunFolder
from apps.development.supervise.services import start_services

FIRST_START = 300.0  # seconds that a start in the background may take on a slow machine


def main(argv: list[str] | None = None) -> int:
    """Run the command line. Returns the exit status."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    arguments = _parser().parse_args(argv)
    try:
        arguments.verb(arguments)
    except SuperviseError as error:
        print(f"lifeboat: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def run(arguments: argparse.Namespace) -> None:
    """Start everything in the foreground, until Ctrl-C."""
    home = RunFolder(arguments.dir)

    def bring_up(supervisor: Supervisor) -> lifetime.Facts:
        return stack.bring_up(home, supervisor, members=_members(arguments))

    lifetime.hold(home, bring_up)


def up(arguments: argparse.Namespace) -> None:
    """Start everything in the background, and return when it is ready."""
    home = RunFolder(arguments.dir)
    if home.published():
        print(f"already up in {home.root}")
        return
    own = ["run", "--dir", str(home.root), "--members", ",".join(_members(arguments))]
    lifetime.detach(home, own, within=FIRST_START)


def down(arguments: argparse.Namespace) -> None:
    """End the processes that run, up or services started in the folder."""
    began = time.monotonic()
    ended = lifetime.down(RunFolder(arguments.dir))
    print(f"ended after {time.monotonic() - began:.1f} s" if ended else "nothing was running")


def clean(arguments: argparse.Namespace) -> None:
    """End everything that runs in the folder and in folders inside it, and remove the folder."""
    for marked in (*arguments.dir.glob(f"*/{MARK}"), arguments.dir / MARK):
        if not marked.parent.is_symlink():
            home = RunFolder(marked.parent)
            lifetime.down(home)
            home.remove()


def env(arguments: argparse.Namespace) -> None:
    """Print lines for eval: the environment variables of the processes that run."""
    facts = RunFolder(arguments.dir).published()
    if facts is None:
        raise SuperviseError(f"nothing is running in {arguments.dir}: start it with `make up`")
    print(lifetime.exports(facts))


def services(arguments: argparse.Namespace) -> None:
    """Start PostgreSQL and Redis only, for tests and benches, and print their addresses as exports.

    With --stop they are ended instead.
    """
    home = RunFolder(arguments.dir or stack.USUAL_HOME / "services")
    if arguments.stop:
        lifetime.down(home)
        if arguments.throwaway:
            home.remove()
        return
    if arguments.foreground:

        def bring_up(supervisor: Supervisor) -> lifetime.Facts:
            services = start_services(home, supervisor, throwaway=arguments.throwaway)
            return {"environment": services.environment}

        lifetime.hold(home, bring_up, with_parent=arguments.with_parent)
        if arguments.throwaway:
            home.remove()
        return
    facts = home.published()
    if facts is None:
        own = ["services", "--foreground", "--dir", str(home.root), *(["--throwaway"] if arguments.throwaway else [])]
        _, facts = lifetime.detach(home, own, within=FIRST_START, say=_to_stderr)
    print(lifetime.exports(facts))


def fault(arguments: argparse.Namespace) -> None:
    """Make a simulated member fail, or end its fault."""
    facts = RunFolder(arguments.dir).published()
    if facts is None:
        raise SuperviseError(f"nothing is running in {arguments.dir}: start it with `make up`")
    command = stack.fault_command(RunFolder(arguments.dir), member=arguments.member, fault=arguments.fault)
    os.chdir(lifetime.PROJECT)
    os.execv(command[0], command)


def _members(arguments: argparse.Namespace) -> tuple[str, ...]:
    return tuple(name for name in arguments.members.split(",") if name)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m apps.development.supervise", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="verb")
    for verb in (run, up, down, clean, env, services, fault):
        sub = verbs.add_parser(verb.__name__, help=verb.__doc__, description=verb.__doc__)
        default = None if verb is services else stack.USUAL_HOME
        sub.add_argument("--dir", type=Path, default=default, help="folder of this run (default: .lifeboat)")
        sub.set_defaults(verb=verb)
        if verb in (run, up):
            sub.add_argument("--members", default=",".join(stack.MEMBERS), help="simulated clusters, with commas")
        if verb is services:
            sub.add_argument("--stop", action="store_true", help="end them")
            sub.add_argument("--export", action="store_true", help="print lines for eval (always done)")
            sub.add_argument(
                "--throwaway",
                action="store_true",
                help="faster; data is lost in a crash and at the end",
            )
            sub.add_argument("--foreground", action="store_true", help="run in the foreground")
            sub.add_argument("--with-parent", action="store_true", help="end when the parent process has ended")
        if verb is fault:
            sub.add_argument("--member", required=True, help="e.g. member1")
            sub.add_argument("--fault", required=True, help="down, blackhole, slow, unauthorized, notready or none")
    return parser


if __name__ == "__main__":
    sys.exit(main())
