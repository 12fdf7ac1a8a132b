"""Texts of others are short, printable, and cover nothing else."""

import unicodedata

import pytest

from sidecar.telling.plain import MAX_TEXT, plain_text, plain_words

ACCENTS = "".join(chr(code) for code in range(0x300, 0x33F))


@pytest.mark.parametrize("shown", [plain_text, plain_words])
def test_sixty_accents_on_one_letter_cover_no_other_line(shown: object) -> None:
    assert callable(shown)
    text = shown(f"a{ACCENTS}b")
    assert text.startswith("a\u0300\u0301\u0302?")
    assert sum(unicodedata.combining(char) > 0 for char in text) == 3


@pytest.mark.parametrize(
    "name",
    ["Llama-3.1-8B", "mô hình lớn", unicodedata.normalize("NFD", "ệ"), "שָׁלוֹם", "ภาษาที่", "한국어"],
)
def test_names_in_any_script_stay_as_they_are(name: str) -> None:
    assert plain_text(name) == plain_words(name) == name


@pytest.mark.parametrize("char", ["\u202e", "\u2066", "\u200b", "\ufeff", "\x1b", "\n", "\ud800"])
def test_what_turns_hides_or_breaks_text_is_shown_as_a_question_mark(char: str) -> None:
    assert plain_text(f"a{char}b") == plain_words(f"a{char}b") == "a?b"


def test_a_text_is_cut() -> None:
    assert plain_text("é" * 100) == "é" * MAX_TEXT
