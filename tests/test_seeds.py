# SPDX-License-Identifier: Apache-2.0
"""Seeds: one for each purpose, the same on every machine."""

from fedqa.seeds import derive, generator


def test_a_seed_is_the_same_everywhere() -> None:
    # the first eight bytes of sha256(b"13\x1ftrain\x1f2\x1fash"), without the last bit
    assert derive(13, "train", 2, "ash") == 0x0245B1597237A2F6


def test_every_part_of_a_purpose_counts() -> None:
    seeds = {derive(13), derive(14), derive(13, "train"), derive(13, "train", 1), derive(13, "train", 11), derive(131)}
    seeds |= {derive(13, "train", 1, "ash"), derive(13, "train", 1, "as", "h"), derive(13, "dropout", 1, "ash")}
    assert len(seeds) == 9


def test_seeds_fit_where_seeds_are_wanted() -> None:
    assert all(0 <= derive(seed, "x") < 2**63 for seed in range(100))


def test_generators_of_one_purpose_draw_the_same() -> None:
    one, same, other = generator(1, "a"), generator(1, "a"), generator(1, "b")
    drawn = one.permutation(100).tolist()
    assert drawn == same.permutation(100).tolist()
    assert drawn != other.permutation(100).tolist()
