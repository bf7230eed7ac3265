"""All URLs."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("apps.api.urls")),
]

handler400 = "apps.api.failures.handler400"
handler403 = "apps.api.failures.handler403"
handler404 = "apps.api.failures.handler404"
handler500 = "apps.api.failures.handler500"
