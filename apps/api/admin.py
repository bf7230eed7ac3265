"""Admin of logins: bearer tokens, and users of an OpenID provider. `manage.py token create` shows a token once."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.api import tokens
from apps.api.models import ProviderUser, ServiceAccountToken, Token
from apps.objects.rows_admin import RowAdmin


class TokenAdmin(RowAdmin):
    """Staff may read tokens, administrators may renew and revoke them. The secret is not stored."""

    list_display = ("user", "name", "validity", "last_used", "created")
    list_display_links = ("name",)
    list_select_related = ("user",)
    ordering = ("user__username", "name")
    search_fields = ("name", "user__username")
    exclude = ("digest",)
    actions = ("renew", "revoke")

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return the actions of administrators. For other staff there are none, also if they send the form."""
        return super().get_actions(request) if request.user.is_superuser else {}

    @admin.display(description="valid", ordering="expires")
    def validity(self, token: Token) -> str:
        return tokens.validity(token)

    @admin.action(description="Renew the selected tokens")
    def renew(self, request: HttpRequest, chosen: QuerySet[Token]) -> None:
        for token in chosen:
            tokens.renew(token)
            self.message_user(request, f"{token}: {tokens.validity(token)}")

    @admin.action(description="Revoke the selected tokens: their requests are refused and their watches end")
    def revoke(self, request: HttpRequest, chosen: QuerySet[Token]) -> None:
        for token in chosen:
            tokens.revoke(token.user, token.name)
            self.message_user(request, f"{token} is revoked", messages.WARNING)


class ServiceAccountTokenAdmin(RowAdmin):
    """Tokens of ServiceAccounts. Administrators may revoke them. The secret is not stored."""

    list_display = ("namespace", "name", "audiences", "bound_kind", "bound_name", "created", "expires")
    list_display_links = ("name",)
    ordering = ("namespace", "name", "expires")
    search_fields = ("namespace", "name")
    exclude = ("digest",)
    actions = ("revoke",)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return the actions of administrators. For other staff there are none, also if they send the form."""
        return super().get_actions(request) if request.user.is_superuser else {}

    @admin.action(description="Revoke the selected tokens: their requests are refused and their watches end")
    def revoke(self, request: HttpRequest, chosen: QuerySet[ServiceAccountToken]) -> None:
        revoked, _ = chosen.delete()
        self.message_user(request, f"{revoked} tokens are revoked", messages.WARNING)


class ProviderUserAdmin(RowAdmin):
    """Users who log in with a browser at an OpenID provider, each with its subject there."""

    list_display = ("user", "subject", "issuer")
    list_select_related = ("user",)
    ordering = ("user__username",)
    search_fields = ("user__username", "subject")


admin.site.register(Token, TokenAdmin)
admin.site.register(ProviderUser, ProviderUserAdmin)
admin.site.register(ServiceAccountToken, ServiceAccountTokenAdmin)
