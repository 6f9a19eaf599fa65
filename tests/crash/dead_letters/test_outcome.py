"""The campaign notices what must not be."""

from tests.crash.dead_letters.rows import Row, counts, letter_problems, rows


def test_a_dead_letter_that_is_missing_or_comes_twice_or_is_no_poison_is_noticed() -> None:
    drawn = rows(1, 100, 5, 1)
    poison = [row for row in drawn if row.is_poison]
    assert len(poison) == 6
    assert [row.kind for row in poison].count("dies") == 1
    letters = [{"values": [row.text]} for row in poison]
    assert letter_problems(letters, drawn) == []
    assert len(letter_problems(letters[1:], drawn)) == 1
    assert len(letter_problems([*letters, letters[0]], drawn)) == 1
    assert len(letter_problems([*letters, {"values": ["1 word plain"]}], drawn)) == 1


def test_a_row_that_counts_twice_in_place_of_another_is_noticed() -> None:
    first, second = Row(1, "word", "plain"), Row(2, "word", "plain")
    assert counts([first, first]) != counts([first, second])
    assert counts([first, Row(3, "word", "raises")]) == counts([first])
