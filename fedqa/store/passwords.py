# SPDX-License-Identifier: Apache-2.0
"""Passwords and tokens: what is kept of them cannot be used to come in."""

import hashlib
import secrets
import threading
import unicodedata
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from fedqa.store.records import StoreError

LENGTHS = range(10, 1001)  # characters of a password
_AT_ONCE = 2  # hashed at a time: each takes 64 MB of memory

_hasher = PasswordHasher()
_turn = threading.BoundedSemaphore(_AT_ONCE)


@cache
def _nobodys() -> str:
    """What a password is compared with where there is no hash."""
    return _hasher.hash(secrets.token_hex())


def new_token() -> str:
    """Safe in URLs and cookies; 256 random bits."""
    return secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """A token is random and long: a fast hash hides it as well as a slow one."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def check_password(password: str) -> None:
    if len(password) not in LENGTHS:
        raise StoreError(
            f"the password has {len(password):,} characters; choose one of {LENGTHS.start} to {LENGTHS.stop - 1:,}"
        )


def hash_password(password: str) -> str:
    check_password(password)
    with _turn:
        return _hasher.hash(_bytes(password))


def matches(hashed: str | None, password: str) -> bool:
    """Whether the password is the one that was hashed. Without a hash the work is the same and the answer no."""
    nobodys = _nobodys()  # now, whether it is needed or not
    try:
        with _turn:
            right = _hasher.verify(hashed or nobodys, _bytes(password[: LENGTHS.stop]))
    except (VerificationError, InvalidHashError):
        return False
    return right and hashed is not None


def is_outdated(hashed: str) -> bool:
    """Whether passwords are hashed with more work by now."""
    return _hasher.check_needs_rehash(hashed)


def _bytes(password: str) -> bytes:
    # One keyboard writes ä as one character, another as two.
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
