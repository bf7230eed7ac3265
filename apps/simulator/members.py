"""Several simulated members, inside this process (Fleet) or in another one (start_fleet_process)."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
import orjson
from aiohttp import web

from apps.simulator import folder
from apps.simulator.control import application
from apps.simulator.faults import Fault, Trouble
from apps.simulator.listener import HOST
from apps.simulator.member import Member, MemberConfig
from apps.simulator.nodes import NodeShape
from apps.simulator.tls import Authority, Contexts


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a fleet. Kubeconfigs are written to `directory`; ports and tokens in it are used again."""

    members: tuple[str, ...] = ("member1", "member2", "member3")
    directory: Path | None = None
    ready_after: float = 1.0
    bookmark_every: float = 30.0
    shape: NodeShape = NodeShape()
    control_port: int = 0
    tls: bool = False


class Fleet:
    """Members in this event loop. The arguments are the fields of Options.

    `async with Fleet(members=("member1",), ready_after=0.1) as fleet: fleet["member1"]`
    """

    def __init__(self, **options: Any) -> None:
        self.options = Options(**options)
        self.members: dict[str, Member] = {}
        self.control_url = ""
        self.authority: bytes = b""
        self._control: web.AppRunner | None = None

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def kubeconfig(self, name: str) -> str:
        """Return the kubeconfig of a member as YAML."""
        member = self[name]
        return folder.kubeconfig(name, url=member.url, token=member.config.token, authority=self.authority)

    async def set_fault(self, name: str, fault: Fault | str, *, seconds: float = 5.0) -> None:
        """Start a fault in a member; "none" ends it."""
        await self[name].set_fault(Trouble(Fault(fault), seconds))

    async def __aenter__(self) -> Self:
        options = self.options
        authority = Authority() if options.tls else None
        self.authority = authority.certificate if authority else b""
        contexts = authority.contexts() if authority else None
        try:
            for config in _configs(options):
                self.members[config.name] = member = _member(config, contexts)
                await member.start()
            await self._open_control()
        except BaseException:
            await self.__aexit__()
            raise
        if options.directory is not None:
            known = [{"name": m.name, "url": m.url, "token": m.config.token} for m in self.members.values()]
            folder.write(options.directory, members=known, control=self.control_url, authority=self.authority)
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._control is not None:
            await self._control.cleanup()
        for member in self.members.values():
            await member.stop()

    async def _open_control(self) -> None:
        self._control = web.AppRunner(application(self.members), access_log=None, shutdown_timeout=0.5)
        await self._control.setup()
        site = web.TCPSite(self._control, HOST, self.options.control_port)
        await site.start()
        address: tuple[str, int] = self._control.addresses[0]
        self.control_url = f"http://{HOST}:{address[1]}"


def _member(config: MemberConfig, tls: Contexts | None) -> Member:
    try:
        return Member(config, tls=tls)
    except OSError:  # another process has the port of the last run
        return Member(msgspec.structs.replace(config, port=0), tls=tls)


def _configs(options: Options) -> Iterator[MemberConfig]:
    """Yield the configuration of each member. Members that the folder already has keep their token and port."""
    before: dict[str, dict[str, str]] = {}
    if options.directory is not None:
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
            before = {member["name"]: member for member in folder.read(options.directory)["members"]}
    for name in options.members:
        known = before.get(name, {})
        yield MemberConfig(
            name,
            known.get("token") or secrets.token_urlsafe(24),
            port=int(known["url"].rpartition(":")[2]) if known else 0,
            ready_after=options.ready_after,
            bookmark_every=options.bookmark_every,
            shape=options.shape,
        )


class FleetProcess:
    """A fleet in another process, controlled through its control API."""

    def __init__(self, process: subprocess.Popen[str], directory: Path) -> None:
        self.process = process
        self.directory = directory
        self.known = folder.read(directory)

    def kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig file of a member."""
        return self.directory / f"{name}.kubeconfig"

    def member(self, name: str) -> dict[str, str]:
        """Return name, url and token of a member."""
        return next(member for member in self.known["members"] if member["name"] == name)

    def set_fault(self, name: str, fault: str, *, seconds: float = 5.0) -> None:
        """Start a fault in a member; "none" ends it."""
        ask(self.known["control"], "PUT", f"/members/{name}/fault", {"fault": fault, "seconds": seconds})

    def requests(self, name: str, *, after: int = 0) -> list[dict[str, Any]]:
        """Return the requests that a member has received, after the request with number `after`."""
        found: list[dict[str, Any]] = ask(self.known["control"], "GET", f"/members/{name}/requests?after={after}")[
            "requests"
        ]
        return found


@contextlib.contextmanager
def start_fleet_process(directory: Path, *, wait: float = 20.0, **options: Any) -> Iterator[FleetProcess]:
    """Run `python -m apps.simulator serve` while the `with` block runs.

    `members` is a list of names. The other options are those of the command, for example ready_after=0.1 or tls=True.
    Raises RuntimeError if the simulator is not ready after `wait` seconds.
    """
    command = [sys.executable, "-m", "apps.simulator", "serve", "--dir", str(directory), *_arguments(options)]
    project = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True)
    try:
        _await_ready(process, wait)
        fleet = FleetProcess(process, directory)
        yield fleet
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def ask(control: str, method: str, path: str, body: Any = None) -> Any:
    """Return the answer of the control API. Raises RuntimeError with its message if it answers with an error."""
    data = None if body is None else orjson.dumps(body)
    request = urllib.request.Request(control + path, data=data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return orjson.loads(response.read())
    except urllib.error.HTTPError as error:
        raise RuntimeError(orjson.loads(error.read()).get("message", str(error))) from None


def _arguments(options: dict[str, Any]) -> Sequence[str]:
    arguments = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            arguments.append(flag)
        elif value is not False:
            arguments += [flag, ",".join(value) if isinstance(value, list | tuple) else str(value)]
    return arguments


def _await_ready(process: subprocess.Popen[str], wait: float) -> None:
    """Wait for the line that the process prints when it is ready."""
    assert process.stdout is not None
    end = time.monotonic() + wait
    line = process.stdout.readline()  # also returns when the process ends
    if not line.startswith("simulator ready") or time.monotonic() > end:
        raise RuntimeError(f"the simulator did not become ready: {line.strip() or 'it ended'}")
