"""Django's registration of this app."""

from django.apps import AppConfig


class FailoverConfig(AppConfig):
    name = "apps.failover"
