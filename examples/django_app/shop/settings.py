"""The settings; what is about limits comes first."""

import os
from pathlib import Path

BASE_DIR = Path(__file__).parents[1]

OVERLIMIT = {
    "DEFAULT_LIMITS": "100/minute",  # each view without a decorator
    "APPLICATION_LIMITS": "1000/minute",  # all views together
    "KEY": "user_or_ip",
    "EXEMPT": ["/health"],
    # Memory is enough for one process. Several share shm://shop on one host, redis://... on several.
    "STORE": os.environ.get("OVERLIMIT_STORE", "memory://"),
}

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "rest_framework",
    "overlimit.django",  # so that manage.py check looks at the limits
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "overlimit.django.RateLimitMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"orders": "3/minute"}}

ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
ASGI_APPLICATION = "shop.asgi.application"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", BASE_DIR / "db.sqlite3"),
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "shop" / "templates"],
        "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
    }
]
SECRET_KEY = "only for this example"
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
LOGIN_REDIRECT_URL = "/"
USE_TZ = True
