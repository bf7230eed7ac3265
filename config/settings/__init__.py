"""Django's settings. What an operator may turn is read in config.env; the product's switches: controlplane.settings."""

import os
from pathlib import Path

from config import env, product

BASE_DIR = Path(__file__).resolve().parents[2]

# Development: plain HTTP on loopback. Errors are never rendered with source and settings, not even there.
DEVELOPMENT = env.flag("LIFEBOAT_DEVELOPMENT", default=False)
DEBUG = False
# Empty is refused by Django on first use, and at start by what serves (config.asgi, config.wsgi, config.celery).
SECRET_KEY = env.text("LIFEBOAT_SECRET_KEY", default="")
# Comma list; the first encrypts what Secrets hold, all decrypt. Refused where it is empty like the one above.
ENCRYPTION_KEYS = env.text("LIFEBOAT_ENCRYPTION_KEYS", default="")
# A switch of the product that cannot be is refused at start; apps.objects.configuration reads them.
product.from_environment(os.environ)

ALLOWED_HOSTS = env.words("LIFEBOAT_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "django_prometheus",
    "apps.objects",
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
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]
ROOT_URLCONF = "config.urls"
APPEND_SLASH = False  # Kubernetes' paths have none; a redirect would lose the body of a PUT
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

# How long a worker that died without a word keeps its group from others, and how soon a paused one is fenced off.
LEASE_SECONDS = env.number("LIFEBOAT_LEASE_SECONDS", default=15, at_least=1)
# Our statements are few, set-based and prepared: one look into an index per row is what each wants, whatever the
# statistics say of a table that was empty a minute ago.
_PLANS = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
# A batch reads and sorts some thousand documents: in memory, not in files that are written and removed each time; and
# no query of ours is worth starting processes for.
_ROOM = {"work_mem": "32MB", "max_parallel_workers_per_gather": "0"}
# A process that is paused inside a transaction, or whose host is gone, keeps the write lock no longer than its lease.
# No statement waits longer for a lock, nor runs longer: a session of somebody else that holds the write lock stops
# neither reads nor health, and what a request waits for is told to it.
DATABASE_LOCK_SECONDS = env.number("LIFEBOAT_DATABASE_LOCK_SECONDS", default=10, at_least=1)
_STATEMENT_SECONDS = env.number("LIFEBOAT_DATABASE_STATEMENT_SECONDS", default=60, at_least=1)
_LIMITS = {
    "idle_in_transaction_session_timeout": f"{LEASE_SECONDS}s",
    "lock_timeout": f"{DATABASE_LOCK_SECONDS}s",
    "statement_timeout": f"{_STATEMENT_SECONDS}s",
}
# A server whose host is gone says nothing any more: libpq finds out in half a minute, not in a quarter of an hour.
_LIVENESS = {
    "connect_timeout": 5,  # s
    "keepalives_idle": 10,  # s
    "keepalives_interval": 5,  # s
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # ms
}
_database = env.database("DATABASE_URL", default="postgresql:///lifeboat")
_given: dict[str, object] = _database["OPTIONS"]  # type: ignore[assignment]  # one of several types of values
_server_options = [
    str(_given.get("options", "")),
    *(f"-c {name}={value}" for name, value in (_PLANS | _ROOM | _LIMITS).items()),
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
            },
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LIFEBOAT_HOME = Path(env.text("LIFEBOAT_HOME", default=str(BASE_DIR / ".lifeboat")))
REDIS_URL = env.text("REDIS_URL", default="redis://127.0.0.1:6379/0")

TOKEN_DAYS = env.number("LIFEBOAT_TOKEN_DAYS", default=90, at_least=1)  # a new token is valid, unless told otherwise

# Requests served at once by one process: as many threads as database connections.
API_THREADS = env.number("LIFEBOAT_DATABASE_POOL", default=8, at_least=1)
# Bytes that one API process may hold of requests and answers in progress, and again of what watches send first.
API_BUFFER = env.number("LIFEBOAT_API_BUFFER_MIB", default=256, at_least=32) * 1024 * 1024
# Open connections of one API process; above it idle ones are closed first.
API_CONNECTIONS = env.number("LIFEBOAT_API_CONNECTIONS", default=8192, at_least=16)
# Logins by password that one address, or one browser that is known, may try in a minute.
LOGINS_PER_MINUTE = env.number("LIFEBOAT_LOGINS_PER_MINUTE", default=10, at_least=1)
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024  # bytes; the API's own limit is 3 MiB and says so
CSRF_FAILURE_VIEW = "apps.api.error_mapping.csrf_failure"
LOGIN_URL = "/login/login/"
LOGIN_REDIRECT_URL = "/"
REST_FRAMEWORK = {
    # A view that does not say what its requests attempt is refused, also one of another library.
    "DEFAULT_PERMISSION_CLASSES": ["apps.api.permissions.DeclaredPermission"],
    "URL_FORMAT_OVERRIDE": "format",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}

LANGUAGE_CODE = "en"
USE_I18N = False
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

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"seldom": {"()": "config.logging.Seldom", "seconds": 30}},
    "formatters": {"line": {"()": "config.logging.LineFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.text("LIFEBOAT_LOG_LEVEL", default="INFO").upper()},
    "loggers": {
        "django": {"handlers": [], "level": "INFO", "propagate": True},
        "django.request": {"handlers": [], "level": "ERROR", "propagate": True},  # a 404 is an answer, not an event
        "django.server": {"handlers": [], "level": "INFO", "propagate": True},
        # One line for every tick received and done says nothing; what a turn did is in the change log.
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        # A broker that answers and refuses is connected to several times a second.
        "celery.worker.consumer.consumer": {"filters": ["seldom"]},
        "celery.worker.consumer.connection": {"filters": ["seldom"]},
    },
}

# Everything that is read has been read by now.
env.refuse_unknown(os.environ, product.variables())
