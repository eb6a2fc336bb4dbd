# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from transformers import RobertaTokenizer

from fedqa.models.backbones import load_backbone
from fedqa.models.encoding import Framing, by_length, tokenised

TOKENIZER = load_backbone("tiny").tokenizer
CLS, SEP, PAD = 101, 102, 0


def test_texts_are_cut_to_leave_room_for_the_special_tokens() -> None:
    (tokens,) = tokenised(TOKENIZER, ["one two three four five six"], 5)
    assert TOKENIZER.decode(tokens) == "one two three"
    assert tokenised(TOKENIZER, [], 5) == []


def test_one_text_is_framed_and_padded_as_the_tokenizer_does_it() -> None:
    texts = ["short", "a somewhat longer text"]
    (group,) = Framing(TOKENIZER, segments=True).padded([(t,) for t in tokenised(TOKENIZER, texts, 48)])
    assert group.rows == [1, 0]  # longest first
    expected = TOKENIZER([texts[1], texts[0]], padding=True, return_tensors="pt")
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        assert group.inputs[name].equal(expected[name]), name


def test_two_texts_are_framed_as_the_tokenizer_does_it() -> None:
    framing = Framing(TOKENIZER, segments=True)
    question, passage = tokenised(TOKENIZER, ["who?", "somebody did it"], 48)
    (group,) = framing.padded([(question, passage)])
    expected = TOKENIZER("who?", "somebody did it", return_tensors="pt")
    assert group.inputs["input_ids"].equal(expected["input_ids"])
    assert group.inputs["token_type_ids"].equal(expected["token_type_ids"])
    assert framing.length(question, passage) == expected["input_ids"].shape[1]


def test_a_tokenizer_with_two_separators_between_texts_keeps_both() -> None:
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "<mask>": 6}
    tokenizer = RobertaTokenizer(vocab=vocabulary, merges=[])
    framing = Framing(tokenizer, segments=False)
    (group,) = framing.padded([(np.array([4, 4]), np.array([5]))])
    assert group.inputs["input_ids"].tolist() == [[0, 4, 4, 2, 2, 5, 2]]
    assert set(group.inputs) == {"input_ids", "attention_mask"}


def test_an_empty_text_is_its_frame_alone() -> None:
    (group,) = Framing(TOKENIZER, segments=True).padded([(np.array([], dtype=np.int64),)])
    assert group.inputs["input_ids"].tolist() == [[CLS, SEP]]


def test_groups_keep_within_the_budget_and_hold_every_text_once() -> None:
    lengths = [3, 9, 4, 8, 5, 30]
    # sorted 30, 9, 8, 5, 4, 3: the 30 stands alone; 20 // 9 = 2 texts; 20 // 5 = 4, of which 3 are left
    assert list(by_length(lengths, 20)) == [[5], [1, 3], [4, 2, 0]]


@pytest.mark.parametrize("budget", [1, 7, 64, 10_000])
def test_any_budget_gives_each_index_once(budget: int) -> None:
    lengths = np.random.default_rng(0).integers(0, 40, 50).tolist()
    groups = list(by_length(lengths, budget))
    assert sorted(i for group in groups for i in group) == list(range(50))
    assert all(len(group) == 1 or len(group) * lengths[group[0]] <= budget for group in groups)
