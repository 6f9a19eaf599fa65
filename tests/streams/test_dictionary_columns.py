"""Dictionary arrays among the columns of tuples: their types, their nulls, and the size of what is sent."""

import pyarrow as pa
import pytest

from anchorbolt.streams.columns import as_arrow, as_list, coded, fitting, from_parts, taken, to_parts


@pytest.mark.parametrize("values", [["a"], [7]], ids=str)
def test_a_null_among_the_values_stays_null(values: list[object]) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 200, pa.int8()), pa.array([None, *values]))
    found = coded(column)
    assert as_arrow(column if found is None else found).to_pylist() == [None, *values] * 200


def test_a_part_is_sent_without_the_values_of_other_tuples() -> None:
    column = pa.array([f"{number:0100}" for number in range(10_000)]).dictionary_encode()
    part = taken(column, slice(5_000, 5_010))
    [sent] = to_parts([part])
    assert len(sent) < 5_000
    [arrived] = from_parts([sent], 10)
    assert arrived.type == column.type
    assert as_list(arrived) == as_list(part)
    assert fitting(10_000, [column], 500_000) > 3_000
