# SPDX-License-Identifier: Apache-2.0
"""The numbers of RFC 7748, section 6.1."""

import pytest

from fedqa.federation.x25519 import agreed, private_key, public_key


def key(text: str) -> bytes:
    return bytes.fromhex(text)


def test_two_silos_agree_as_alice_and_bob_do_in_the_standard() -> None:
    alice = key("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob = key("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    assert public_key(bob) == key("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
    assert public_key(alice) == key("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
    secret = key("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    assert agreed(alice, public_key(bob)) == agreed(bob, public_key(alice)) == secret


def test_keys_are_made_by_chance() -> None:
    assert private_key() != private_key()


@pytest.mark.parametrize("point", [bytes(32), (1).to_bytes(32, "little"), (2**255 - 19).to_bytes(32, "little")])
def test_a_public_key_that_would_make_a_secret_everybody_knows_is_refused(point: bytes) -> None:
    with pytest.raises(ValueError):
        agreed(private_key(), point)


def test_keys_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        agreed(bytes(31), bytes(32))
