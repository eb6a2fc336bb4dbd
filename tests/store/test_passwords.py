# SPDX-License-Identifier: Apache-2.0
"""What is kept of passwords and tokens."""

import hashlib
import time

from fedqa.store.passwords import hash_password, hash_token, is_outdated, matches, new_token


def test_a_password_is_hashed_by_argon2id_with_a_salt() -> None:
    one, other = hash_password("correct horse"), hash_password("correct horse")
    assert one.startswith("$argon2id$") and one != other
    assert matches(one, "correct horse") and not matches(one, "correct house")
    assert not is_outdated(one)
    assert not matches("not a hash", "correct horse")
    assert not matches(None, "correct horse")


def test_the_two_ways_to_write_an_accent_are_the_same_password() -> None:
    assert matches(
        hash_password("caf\N{LATIN SMALL LETTER E WITH ACUTE} au lait"), "cafe\N{COMBINING ACUTE ACCENT} au lait"
    )


def test_the_password_of_an_unknown_name_takes_as_much_work_as_a_wrong_one() -> None:
    known = hash_password("correct horse")
    matches(None, "to be ready")

    def work(hashed: str | None) -> float:
        start = time.process_time()
        assert not matches(hashed, "correct house")
        return time.process_time() - start

    unknown, wrong = (min(work(hashed) for _ in range(3)) for hashed in (None, known))
    assert wrong / 10 < unknown < wrong * 10  # without the work it would be a thousandth


def test_a_token_is_long_random_and_kept_as_its_sha_256() -> None:
    token = new_token()
    assert len(token) == 43 and token != new_token()  # 256 bits, 6 in each character
    assert token.replace("-", "").replace("_", "").isalnum() and token.isascii()
    assert hash_token(token) == hashlib.sha256(token.encode()).hexdigest()
