"""Runs simulated member clusters and makes them fail.

python -m apps.simulator serve --members member1,member2 --dir .lifeboat/members
python -m apps.simulator fault member1 down
python -m apps.simulator set member1 --ready-after 0.2
python -m apps.simulator log member1
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import uvloop

from apps.simulator import folder
from apps.simulator.faults import Fault
from apps.simulator.members import Fleet, ask
from apps.simulator.nodes import NodeShape

_USUAL_FOLDER = Path(".lifeboat/members")


def main(arguments: list[str] | None = None) -> int:
    """Run the command of the command line and return the exit code."""
    asked = _parser().parse_args(arguments)
    if asked.command == "serve":
        with contextlib.suppress(KeyboardInterrupt):
            uvloop.run(_serve(asked))
        return 0
    try:
        control = folder.read(asked.dir)["control"]
        return _order(asked, control)
    except FileNotFoundError:
        print(f"no {folder.MEMBERS} in {asked.dir}: start `serve --dir {asked.dir}` first", file=sys.stderr)
    except (RuntimeError, OSError) as error:
        print(f"the simulator of {asked.dir} says: {error}", file=sys.stderr)
    return 1


async def _serve(asked: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    shape = NodeShape(asked.nodes, asked.cpu, asked.memory, asked.pods, _labels(asked.node_labels))
    fleet = Fleet(
        members=tuple(name for name in asked.members.split(",") if name),
        directory=asked.dir,
        ready_after=asked.ready_after,
        bookmark_every=asked.bookmark_every,
        shape=shape,
        control_port=asked.control_port,
        tls=asked.tls,
    )
    async with fleet:
        urls = ", ".join(f"{member.name} {member.url}" for member in fleet.members.values())
        print(f"simulator ready: {urls}; control {fleet.control_url}; kubeconfigs in {asked.dir}", flush=True)
        await stop.wait()


def _order(asked: argparse.Namespace, control: str) -> int:
    member = asked.named_member or asked.member
    if not member:
        print("which member? write its name behind the command", file=sys.stderr)
        return 2
    path = f"/members/{member}"
    if asked.command == "fault":
        fault = asked.named_fault or asked.fault
        if not fault:
            print(f"which fault? request of {', '.join(Fault)}", file=sys.stderr)
            return 2
        shown = ask(control, "PUT", f"{path}/fault", {"fault": fault, "seconds": asked.seconds})
        print(f"{shown['name']}: {shown['fault']}")
    elif asked.command == "set":
        shown = ask(control, "PUT", f"{path}/settings", {"readyAfter": asked.ready_after})
        print(f"{shown['name']}: ready after {shown['readyAfter']} s")
    elif asked.clear:
        ask(control, "DELETE", f"{path}/requests")
    else:
        for request in ask(control, "GET", f"{path}/requests")["requests"]:
            print(
                request["at"],
                request["status"],
                request["method"],
                request["path"],
                f"{request['seconds']:.3f}s",
                request["userAgent"],
            )
    return 0


def _labels(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m apps.simulator", description="Simulated member clusters.")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="run members until SIGTERM or SIGINT")
    serve.add_argument("--members", default="member1,member2,member3", help="names of the members, separated by commas")
    serve.add_argument("--control-port", type=int, default=0, help="port of the control API; 0: a free port")
    serve.add_argument("--ready-after", type=float, default=1.0, help="seconds until a pod is ready")
    serve.add_argument("--bookmark-every", type=float, default=30.0, help="seconds between bookmarks of a watch")
    serve.add_argument("--nodes", type=int, default=3, help="nodes of each member")
    serve.add_argument("--cpu", default="8", help="CPU of each node")
    serve.add_argument("--memory", default="32Gi", help="memory of each node")
    serve.add_argument("--pods", type=int, default=110, help="pods of each node")
    serve.add_argument("--node-labels", default="", help="labels of each node: name=value, separated by commas")
    serve.add_argument("--tls", action="store_true", help="serve HTTPS with a new certificate authority")
    fault = commands.add_parser("fault", help="start a fault in a member; the fault none ends it")
    fault.add_argument("--seconds", type=float, default=5.0, help="delay of each answer with the fault slow")
    settings = commands.add_parser("set", help="change a setting of a running member")
    settings.add_argument("--ready-after", type=float, required=True, help="seconds until a pod is ready")
    log = commands.add_parser("log", help="print the requests that a member has received")
    log.add_argument("--clear", action="store_true", help="delete the request log instead of printing it")
    for command in (serve, fault, settings, log):
        command.add_argument("--dir", type=Path, default=_USUAL_FOLDER, help="folder with kubeconfigs and members.json")
    for command in (fault, settings, log):
        command.add_argument("member", nargs="?")
        command.add_argument("--member", dest="named_member", metavar="MEMBER", help="the member, as an option")
    words = [str(fault) for fault in Fault]
    fault.add_argument("fault", nargs="?", choices=words)
    fault.add_argument("--fault", dest="named_fault", choices=words, help="the fault, as an option")
    return parser


if __name__ == "__main__":
    sys.exit(main())
