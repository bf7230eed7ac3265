"""Django's registration of this app."""

from django.apps import AppConfig


class PoliciesConfig(AppConfig):
    name = "apps.policies"
