# SPDX-License-Identifier: Apache-2.0
"""Two silos agree on a secret through a coordinator that hears everything: X25519 (RFC 7748), as bytes.

Keys are used for one exchange and then forgotten.
"""

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

SIZE = 32  # bytes of a key


def private_key() -> bytes:
    return X25519PrivateKey.generate().private_bytes_raw()


def public_key(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed(private: bytes, public: bytes) -> bytes:
    """The secret that both have. Raises ValueError for a public key that would make it the same for everybody."""
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
