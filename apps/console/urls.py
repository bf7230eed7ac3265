"""URLs of the console."""

from django.urls import path

from apps.console.situation import SituationPage
from apps.console.stream import StreamView

app_name = "console"

urlpatterns = [
    path("", SituationPage.as_view(), name="situation"),
    path("stream", StreamView.as_view(), name="stream"),
]
