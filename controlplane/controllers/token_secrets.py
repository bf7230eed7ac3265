"""Token Secrets: fills in the token of a ServiceAccount, and removes it with the ServiceAccount [token-secrets]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.authentication import token_secrets
from controlplane.authentication.questions import Issued, NewTokens
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.engine.controller import Controller, Inquiry, Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision, Drop, Put, Save, deleting
from controlplane.engine.state import State, Watch
from controlplane.kinds import SECRET
from controlplane.kinds.rows import IssuedToken
from controlplane.kinds.template import SERVICE_ACCOUNT, Template, token_secret
from controlplane.settings import Settings


class TokenSecretSnapshot(Struct, frozen=True):
    """A Secret (None: deleted), its ServiceAccount, and the tokens that were issued for a Secret of this name.

    `place`: the position of its new token in the answer; -1: it needs none.
    """

    secret: Template | None
    account: Template | None
    issued: tuple[IssuedToken, ...]
    place: int = -1

    @property
    def subject(self) -> Template | None:
        return self.secret

    @property
    def is_held(self) -> bool:
        """Whether the Secret should hold a token: its ServiceAccount exists, and is the one it was filled for."""
        if self.secret is None or self.account is None or self.secret.metadata.deletion_timestamp is not None:
            return False
        return self.secret.metadata.annotations.get(token_secret.UID_ANNOTATION, "") in ("", self.account.metadata.uid)

    @property
    def valid(self) -> IssuedToken | None:
        """The row of the token that the Secret holds; None: it holds none that was issued for it."""
        if self.secret is None or self.account is None:
            return None
        digest = token_secrets.digest_of(token_secrets.token_of(self.secret))
        uids = self.secret.metadata.uid, self.account.metadata.uid
        return next(
            (row for row in self.issued if row.key == digest and (row.secret_uid, row.account_uid) == uids), None
        )


def _secret_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    present = new or old
    assert present is not None, "a change has an old or a new side"
    if any(secret is not None and secret.content.get("type") == token_secret.TYPE for secret in (old, new)):
        yield present.ref


def _account_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """The token Secrets of a ServiceAccount are due when it was created or removed."""
    present = new or old
    assert present is not None, "a change has an old or a new side"
    if old is None or new is None:
        yield present.ref


class TokenSecrets(Controller):
    """Key: a Secret. Writes the data of token Secrets, and deletes those whose ServiceAccount is gone."""

    name: ClassVar[str] = "token_secrets"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (SECRET,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(SECRET, _secret_changed),
        Watch(SERVICE_ACCOUNT, _account_changed, fan_out=True),
    )
    due_at_start: ClassVar[tuple[Ref, ...]] = (FLEET,)  # the authority of the API may have changed
    owns: ClassVar[Ownership] = Ownership({SECRET: ("content", "metadata.annotations", "delete")}, rows=(IssuedToken,))

    def fan_out_of(self, origin: Ref) -> str:
        """ServiceAccounts are expanded together: thousands are created at once, and few have token Secrets."""
        return origin.kind

    def expand_all(
        self, state: State, origins: Sequence[Ref], *, after: str, limit: int
    ) -> tuple[list[Ref], str | None]:
        """Return the token Secrets of ServiceAccounts, or all of them."""
        accounts = sorted(token_secret.account_value(origin.namespace, origin.name) for origin in origins)
        values = accounts if origins[0].kind == SERVICE_ACCOUNT else [token_secret.EVERY]
        found = state.refs_by_index(SECRET, token_secret.ACCOUNT, values, after=cursor_after(after), limit=limit)
        return page(list(found), limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[TokenSecretSnapshot | None]:
        secrets = state.get(refs)
        named = {ref: Ref(SERVICE_ACCOUNT, ref.namespace, token_secret.account_of(secrets[ref])) for ref in secrets}
        accounts = state.get({account for account in named.values() if account.name})
        places = [token_secrets.place_of(ref.namespace, ref.name) for ref in refs]
        rows: dict[str, Sequence[IssuedToken]] = state.rows(IssuedToken, "place", places)
        return [
            TokenSecretSnapshot(
                secrets.get(ref), accounts.get(named[ref]) if ref in named else None, tuple(rows.get(place, ()))
            )
            for ref, place in zip(refs, places, strict=True)
        ]

    def ask(self, snapshots: Sequence[TokenSecretSnapshot], settings: Settings, *, now: datetime) -> Inquiry:
        """Ask for a token for each Secret that needs one, and for the authority of the API."""
        placed, count = [], 0
        for snapshot in snapshots:
            needs = snapshot.is_held and snapshot.valid is None
            placed.append(replace(snapshot, place=count) if needs else snapshot)
            count += needs
        held = any(snapshot.is_held for snapshot in snapshots)
        return Inquiry(placed, NewTokens(count) if held else None)

    def decide(
        self, snapshot: TokenSecretSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        secret, account = snapshot.secret, snapshot.account
        if secret is None or not snapshot.is_held:
            dropped = tuple(Drop(row) for row in snapshot.issued)
            if secret is not None and secret.metadata.deletion_timestamp is None and _was_filled(secret):
                return Decision(changes=(deleting(secret, now=now), *dropped), reason="ServiceAccountGone")
            return Decision(changes=dropped, reason="TokenRevoked") if dropped else NOTHING
        assert account is not None, "a Secret holds a token of a ServiceAccount that exists"
        issued: Issued = answer
        token = issued.tokens[snapshot.place] if snapshot.place >= 0 else token_secrets.token_of(secret)
        kept = token_secrets.digest_of(token)
        changes: list[Any] = [Drop(row) for row in snapshot.issued if row.key != kept]
        if snapshot.place >= 0:
            changes.append(Save(token_secrets.issued(secret, account, token=token)))
        new = token_secrets.filled(secret, account, token=token, authority=issued.authority)
        if new != secret:
            changes.append(Put(new, secret))
        return Decision(changes=tuple(changes), reason="TokenIssued") if changes else NOTHING


def _was_filled(secret: Template) -> bool:
    """Test whether a Secret was filled in for a ServiceAccount. One that was not waits until its account exists."""
    return (
        secret.content.get("type") == token_secret.TYPE and token_secret.UID_ANNOTATION in secret.metadata.annotations
    )
