"""Django's settings. Environment variables are read with config.env. The product's settings: controlplane.settings."""

from pathlib import Path
from typing import Any

from config import env, product

BASE_DIR = Path(__file__).resolve().parents[2]

# Development serves plain HTTP on loopback. DEBUG is off even there: error pages never show source and settings.
DEVELOPMENT = env.flag("LIFEBOAT_DEVELOPMENT", default=False)
DEBUG = False
# "" is refused by Django on first use. config.asgi, config.wsgi and config.celery refuse it at the start.
SECRET_KEY = env.text("LIFEBOAT_SECRET_KEY", default="")
# Comma list: the first key encrypts the contents of Secrets, all of them decrypt. "" is refused at the start as well.
ENCRYPTION_KEYS = env.text("LIFEBOAT_ENCRYPTION_KEYS", default="")
# Refuses invalid settings of the product at the start; apps.objects.configuration reads them.
product.from_environment(env.variables())

ALLOWED_HOSTS = env.words("LIFEBOAT_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])

INSTALLED_APPS = [
    "apps.objects",  # before Django's admin, because templates of the admin are replaced there
    "apps.console.admin_site.FleetAdmin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "django_htmx",  # for its static files
    "apps.clusters",
    "apps.policies",
    "apps.resources",
    "apps.failover",
    "apps.scheduling",
    "apps.api",
    "apps.console",
    "apps.worker",
    "apps.members",
    "apps.development",
    "apps.simulator",
]
MIDDLEWARE = [
    "apps.api.request_metrics.RequestMetrics",  # django-prometheus without its app, which registers too much
    "apps.api.auditing.Auditing",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "apps.api.caching.Caching",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "apps.api.last_use.SessionUses",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "config.urls"
APPEND_SLASH = False  # paths of Kubernetes have no slash at the end; a redirect would lose the body of a PUT
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
WSGI_APPLICATION = "config.wsgi.application"

# How long the lease of a killed worker stays valid, and how soon the writes of a paused one are refused.
LEASE_SECONDS = env.number("LIFEBOAT_LEASE_SECONDS", default=15, at_least=1, at_most=3600)
# Our statements are few, set-based and prepared. Each needs one index lookup per row, whatever the statistics say about
# a table that was empty a minute ago.
_PLANS = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
# A batch reads and sorts some thousand documents in memory, without temporary files. No query of ours is large enough
# for parallel processes.
_MEMORY = {"work_mem": "32MB", "max_parallel_workers_per_gather": "0"}
# Whatever the server, the database or the login has by default. Sessions that are opened without Django read times as
# if they were in UTC as well. Writers wait for the write lock, and then have to see what was written before them.
_DEFAULTS = {"timezone": "UTC", "default_transaction_isolation": r"read\ committed"}
# A process that is paused inside a transaction, or whose host is lost, keeps the write lock no longer than its lease.
# The limits for waiting and running keep reads and health checks working while another session holds the write lock,
# and let a request end with an error that names the cause.
DATABASE_LOCK_SECONDS = env.number("LIFEBOAT_DATABASE_LOCK_SECONDS", default=10, at_least=1, at_most=86_400)
DATABASE_STATEMENT_SECONDS = env.number("LIFEBOAT_DATABASE_STATEMENT_SECONDS", default=60, at_least=1, at_most=86_400)
_LIMITS = {
    "idle_in_transaction_session_timeout": f"{LEASE_SECONDS}s",
    "lock_timeout": f"{DATABASE_LOCK_SECONDS}s",
    "statement_timeout": f"{DATABASE_STATEMENT_SECONDS}s",
}
# With these libpq notices within half a minute that the host of the server is lost, instead of a quarter of an hour.
_LIVENESS = {
    "connect_timeout": 5,  # s
    "keepalives_idle": 10,  # s
    "keepalives_interval": 5,  # s
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # ms
}
_database = env.database("DATABASE_URL", default="postgresql:///lifeboat")
_given: dict[str, object] = _database["OPTIONS"]  # type: ignore[assignment]  # `database` returns values of several types
_server_options = [
    str(_given.get("options", "")),
    *(f"-c {name}={value}" for name, value in (_PLANS | _MEMORY | _DEFAULTS | _LIMITS).items()),
]
DATABASES = {
    "default": {
        **_database,
        "CONN_MAX_AGE": 0,  # the pool keeps connections
        "OPTIONS": {
            **_LIVENESS,
            **_given,
            "options": " ".join(_server_options).strip(),
            "pool": {
                "min_size": 1,
                "max_size": env.number("LIFEBOAT_DATABASE_POOL", default=8, at_least=1),
                "timeout": 3,  # seconds until a request without a connection is answered 503
                "max_idle": 20,  # s until one idle session is closed; it has up to 10 MB, and a new one takes a few ms
                "num_workers": 1,  # threads that open connections
            },
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LIFEBOAT_HOME = Path(env.text("LIFEBOAT_HOME", default=str(BASE_DIR / ".lifeboat")))
REDIS_URL = env.redis("REDIS_URL", default="redis://127.0.0.1:6379/0")

# Bounds of the duration of requests, in seconds.
PROMETHEUS_LATENCY_BUCKETS = (0.005, 0.025, 0.1, 0.3, 1, 3, 10, 30, float("inf"))
# Where Prometheus scrapes this process; port 0: nowhere. Figures of the fleet are at /metrics of the API.
METRICS_PORT = env.number("LIFEBOAT_METRICS_PORT", default=0, at_least=0, at_most=65_535)
METRICS_HOST = env.text("LIFEBOAT_METRICS_HOST", default="127.0.0.1")

# Notices without Alertmanager: a webhook, and e-mail. Empty: that channel is off.
NOTIFY_WEBHOOK = env.address("LIFEBOAT_NOTIFY_WEBHOOK")
NOTIFY_WEBHOOK_TOKEN = env.text("LIFEBOAT_NOTIFY_WEBHOOK_TOKEN", default="")
NOTIFY_EMAIL = env.words("LIFEBOAT_NOTIFY_EMAIL", default=[])
NOTIFY_FROM = env.text("LIFEBOAT_NOTIFY_FROM", default="lifeboat@localhost")
NOTIFY_SMTP = env.mail_server("LIFEBOAT_NOTIFY_SMTP")
if NOTIFY_EMAIL and NOTIFY_SMTP is None:
    raise env.EnvironmentInvalid(
        "LIFEBOAT_NOTIFY_EMAIL is set, but not the server that sends the mail; "
        "e.g. LIFEBOAT_NOTIFY_SMTP=smtp://user:password@mail.example.com:587?starttls=true"
    )

_DAYS = 36_500  # a hundred years: a time that is much further away cannot be computed with
# Audit events: a policy of audit.k8s.io/v1, and copies of the events in a file and to a webhook. Empty: off.
AUDIT_POLICY = env.text("LIFEBOAT_AUDIT_POLICY", default="")
AUDIT_FILE = env.appended_file("LIFEBOAT_AUDIT_FILE")
AUDIT_WEBHOOK = env.address("LIFEBOAT_AUDIT_WEBHOOK")
AUDIT_WEBHOOK_TOKEN = env.text("LIFEBOAT_AUDIT_WEBHOOK_TOKEN", default="")
AUDIT_DAYS = env.number("LIFEBOAT_AUDIT_DAYS", default=30, at_least=1, at_most=_DAYS)

# PEM file of the authority that signed the certificate under which clients reach the API; "": a public authority.
_development_authority = str(LIFEBOAT_HOME / "tls" / "ca.crt") if DEVELOPMENT else ""
API_AUTHORITY = env.text("LIFEBOAT_API_AUTHORITY", default=_development_authority)
if API_AUTHORITY and not DEVELOPMENT and not Path(API_AUTHORITY).is_file():
    raise env.EnvironmentInvalid(
        f'LIFEBOAT_API_AUTHORITY: there is no file "{API_AUTHORITY}"; e.g. LIFEBOAT_API_AUTHORITY=/etc/lifeboat/ca.crt'
    )
# Logins with client certificates: off; tls: from connections to this process; proxy: from a header of trusted proxies.
CLIENT_CERTIFICATES = env.choice("LIFEBOAT_CLIENT_CERTIFICATES", default="off", of=("off", "tls", "proxy"))
# PEM file of authorities that sign client certificates, beside the control plane's own.
CLIENT_CA_FILE = env.text("LIFEBOAT_CLIENT_CA_FILE", default="")
if CLIENT_CA_FILE and not Path(CLIENT_CA_FILE).is_file():
    raise env.EnvironmentInvalid(
        f'LIFEBOAT_CLIENT_CA_FILE: there is no file "{CLIENT_CA_FILE}"; '
        "e.g. LIFEBOAT_CLIENT_CA_FILE=/etc/lifeboat/clients.crt"
    )
CLIENT_CERTIFICATE_HEADER = env.text("LIFEBOAT_CLIENT_CERTIFICATE_HEADER", default="X-SSL-Client-Cert")
CLIENT_CERTIFICATE_PROXIES = env.networks("LIFEBOAT_CLIENT_CERTIFICATE_PROXIES")
if CLIENT_CERTIFICATES == "proxy" and not CLIENT_CERTIFICATE_PROXIES:
    raise env.EnvironmentInvalid(
        "LIFEBOAT_CLIENT_CERTIFICATES is proxy, but no proxy is trusted; "
        "e.g. LIFEBOAT_CLIENT_CERTIFICATE_PROXIES=10.0.0.5"
    )

# Bearer tokens of an OpenID Connect provider; "": none are accepted. The issuer is an https address.
OIDC_ISSUER = env.text("LIFEBOAT_OIDC_ISSUER", default="")
OIDC_AUDIENCE = env.text("LIFEBOAT_OIDC_AUDIENCE", default="")
OIDC_USERNAME_CLAIM = env.text("LIFEBOAT_OIDC_USERNAME_CLAIM", default="sub")
OIDC_USERNAME_PREFIX = env.text("LIFEBOAT_OIDC_USERNAME_PREFIX", default="oidc:")
OIDC_GROUPS_CLAIM = env.text("LIFEBOAT_OIDC_GROUPS_CLAIM", default="")
OIDC_GROUPS_PREFIX = env.text("LIFEBOAT_OIDC_GROUPS_PREFIX", default="oidc:")
OIDC_REQUIRED_CLAIMS = env.pairs("LIFEBOAT_OIDC_REQUIRED_CLAIMS")
OIDC_CA_FILE = env.text("LIFEBOAT_OIDC_CA_FILE", default="")
# The client as which browsers log in at the provider; "": they log in by password only.
OIDC_CLIENT_ID = env.text("LIFEBOAT_OIDC_CLIENT_ID", default="")
OIDC_CLIENT_SECRET = env.text("LIFEBOAT_OIDC_CLIENT_SECRET", default="")
OIDC_SCOPES = env.text("LIFEBOAT_OIDC_SCOPES", default="openid profile email")
OIDC_SESSION_HOURS = env.number("LIFEBOAT_OIDC_SESSION_HOURS", default=8, at_least=1, at_most=87_600)
if OIDC_CLIENT_ID and not OIDC_ISSUER:
    raise env.EnvironmentInvalid(
        "LIFEBOAT_OIDC_CLIENT_ID is set, but no provider; e.g. LIFEBOAT_OIDC_ISSUER=https://login.example.com"
    )
if OIDC_ISSUER and not (OIDC_ISSUER.startswith("https://") or DEVELOPMENT):
    raise env.EnvironmentInvalid(
        f'LIFEBOAT_OIDC_ISSUER: "{OIDC_ISSUER}" is not an https address; e.g. LIFEBOAT_OIDC_ISSUER=https://login.example.com'
    )
if OIDC_ISSUER and not OIDC_AUDIENCE:
    raise env.EnvironmentInvalid(
        "LIFEBOAT_OIDC_ISSUER is set, but not for whom its tokens are; e.g. LIFEBOAT_OIDC_AUDIENCE=lifeboat"
    )
if OIDC_CA_FILE and not Path(OIDC_CA_FILE).is_file():
    raise env.EnvironmentInvalid(
        f'LIFEBOAT_OIDC_CA_FILE: there is no file "{OIDC_CA_FILE}"; e.g. LIFEBOAT_OIDC_CA_FILE=/etc/lifeboat/login.crt'
    )

# Validity of a new token without --days.
TOKEN_DAYS = env.number("LIFEBOAT_TOKEN_DAYS", default=90, at_least=1, at_most=_DAYS)

# Processes of one `manage.py serve`. Each has its own threads, database connections and limits.
API_PROCESSES = env.number("LIFEBOAT_API_PROCESSES", default=1, at_least=1)
# Requests that one process answers at the same time: as many threads as database connections.
API_THREADS = env.number("LIFEBOAT_DATABASE_POOL", default=8, at_least=1)
# Requests of one client (a user, else an address) that may wait for a thread.
API_WAITING = env.number("LIFEBOAT_API_WAITING_PER_CLIENT", default=250, at_least=1)
# Requests of one client in a second, over two seconds: about as many small reads as a process can answer. 0: no limit.
API_PER_SECOND = env.number("LIFEBOAT_API_REQUESTS_PER_SECOND", default=10_000, at_least=0)
# Bytes of requests and answers in progress in one API process, and as many again for the first objects of watches.
API_BUFFER = env.number("LIFEBOAT_API_BUFFER_MIB", default=256, at_least=32) * 1024 * 1024
# Open connections of one API process. Beyond that, idle ones are closed first.
API_CONNECTIONS = env.number("LIFEBOAT_API_CONNECTIONS", default=8192, at_least=16)
# Logins by password in a minute, for each address and for each browser that has logged in before.
LOGINS_PER_MINUTE = env.number("LIFEBOAT_LOGINS_PER_MINUTE", default=10, at_least=1)
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024  # bytes; the limit of the API is 3 MiB, and its error is more helpful
CSRF_FAILURE_VIEW = "apps.api.error_mapping.csrf_failure"
LOGIN_URL = "/login/login/"
LOGIN_REDIRECT_URL = "/"
REST_FRAMEWORK = {
    # A view that does not declare what its requests attempt is refused, also a view of a library.
    "DEFAULT_PERMISSION_CLASSES": ["apps.api.permissions.DeclaredPermission"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "apps.api.negotiation.Negotiation",
    "URL_FORMAT_OVERRIDE": "format",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}

LANGUAGE_CODE = "en"
USE_I18N = False
FORMAT_MODULE_PATH = "config.formats"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
STATIC_ROOT = None if DEVELOPMENT else BASE_DIR / "staticfiles"
WHITENOISE_USE_FINDERS = True  # no collectstatic step before the first start

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
SESSION_COOKIE_SECURE = not DEVELOPMENT
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = not DEVELOPMENT
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_TRUSTED_ORIGINS = env.words("LIFEBOAT_TRUSTED_ORIGINS", default=[])
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
_hsts_seconds = env.number("LIFEBOAT_HSTS_SECONDS", default=3600, at_least=0)
SECURE_HSTS_SECONDS = 0 if DEVELOPMENT else _hsts_seconds
X_FRAME_OPTIONS = "DENY"

_log_format = env.choice("LIFEBOAT_LOG_FORMAT", default="text" if DEVELOPMENT else "json", of=("json", "text"))
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"seldom": {"()": "config.logging.Seldom", "seconds": 30}},
    "formatters": {"json": {"()": "config.logging.LineFormatter"}, "text": {"()": "config.logging.TextFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": _log_format}},
    "root": {"handlers": ["stderr"], "level": env.log_level("LIFEBOAT_LOG_LEVEL", default="INFO")},
    "loggers": {
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        "django.request": {"handlers": [], "level": "ERROR", "propagate": True},  # a 404 is an answer, not an event
        "django.server": {"handlers": [], "level": "INFO", "propagate": True},
        # Celery would log every tick; what a turn has done is in the change log.
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        # A tick that expired or was revoked is ordinary: a turn of its group was running, and lasts until the next one.
        "celery.worker.request": {"level": "WARNING"},
        # Celery connects several times a second to a broker that refuses.
        "celery.worker.consumer.consumer": {"filters": ["seldom"]},
        "celery.worker.consumer.connection": {"filters": ["seldom"]},
    },
}
if AUDIT_FILE:  # "-": standard output
    _file = {"class": "logging.handlers.WatchedFileHandler", "filename": AUDIT_FILE}
    _stream = {"class": "logging.StreamHandler", "stream": "ext://sys.stdout"}
    LOGGING["handlers"]["audit"] = {**(_stream if AUDIT_FILE == "-" else _file), "formatter": "plain"}
    LOGGING["formatters"]["plain"] = {"format": "%(message)s"}
    LOGGING["loggers"]["lifeboat.audit"] = {"handlers": ["audit"], "level": "INFO", "propagate": False}

# All variables have been read at this point.
env.refuse_unknown(env.variables(), product.variables())
