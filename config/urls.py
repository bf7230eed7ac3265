"""All URLs."""

from django.contrib import admin
from django.urls import include, path

from apps.api import oidc_login
from apps.api.login_throttle import throttled

urlpatterns = [
    # Before the same paths of the libraries, because their logins have no limit of attempts.
    path("admin/login/", throttled(admin.site.login)),
    path("login/login/", throttled(oidc_login.PasswordLogin.as_view())),
    path("login/oidc", oidc_login.begin),
    path("login/oidc/callback", oidc_login.callback),
    path("admin/", admin.site.urls),
    path("", include("apps.console.urls")),  # its page at / gives way to the API for clients that are no browsers
    path("", include("apps.api.urls")),
]

handler400 = "apps.api.error_mapping.handler400"
handler403 = "apps.api.error_mapping.handler403"
handler404 = "apps.api.error_mapping.handler404"
handler500 = "apps.api.error_mapping.handler500"
