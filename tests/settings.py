"""Django's settings for tests: those of the product, with passwords that are hashed fast."""

from config.settings import *  # noqa: F403 - every setting of the product

# A million rounds of PBKDF2 take 0.3 s for each user and each login. No test asks how passwords are hashed.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# WhiteNoise reads all static files for each test client otherwise: a tenth of what a test of a page costs.
WHITENOISE_AUTOREFRESH = True
