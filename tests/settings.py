"""Django's settings for tests: those of the product, with passwords that are hashed fast."""

from config.settings import *  # noqa: F403 - every setting of the product

# A million rounds of PBKDF2 take 0.3 s for each user and each login. No test asks how passwords are hashed.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
