"""Which generation of Storm wrote a hash, told from its fields and values.

What decides is the wrapper around the values, which is another in each generation from 1.1 on, and whether fields and
values are Base64 text. Storm 1.0 has no wrapper, so its data are what is Base64 of Kryo without one. Every entry that
is looked at has to agree: nothing is decided by a majority.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from anchorbolt.errors import SerializationError, UnsupportedJavaClass
from anchorbolt.storm import base64_text
from anchorbolt.storm.kryo.decoder import StormDecoder
from anchorbolt.storm.wrapper import Generation, unwrap

_HIGHEST_ID = 40
"""A configuration that registers thirty classes is not to be expected, and beyond that letters begin."""


class StoredForm(NamedTuple):
    """How a hash is kept.

    Attributes:
        generation: Which Storm serialised its keys and values.
        base64: Whether they are Base64 text. After a migration that took the text off and no more they are not.
    """

    generation: Generation
    base64: bool


_WRAPPED = (Generation.STORM_1_1, Generation.STORM_1_2, Generation.STORM_2_0, Generation.STORM_2_6)
_FORMS = (
    *(StoredForm(generation, base64=False) for generation in _WRAPPED),
    StoredForm(Generation.STORM_1_1, base64=True),
    StoredForm(Generation.STORM_1_0, base64=True),
    StoredForm(Generation.STORM_1_0, base64=False),
)
_STORM_1_0 = StormDecoder(Generation.STORM_1_0)


class _Fit(Enum):
    NOT = 0
    POSSIBLE = 1
    CERTAIN = 2


def detect(entries: Iterable[tuple[bytes, bytes]]) -> StoredForm | None:
    """Return how a hash is kept, or None where its entries do not agree, or are not Storm's, or there are none.

    The classes that Storm's configuration registered need not be known.

    Args:
        entries: Fields and values as they are in the store, of a namespace or its `$prepare`, not of its `$txid`. Some
            hundred are enough; all are looked at.
    """
    fits: dict[StoredForm, set[_Fit]] = {form: set() for form in _FORMS}
    for field, value in entries:
        for form in list(fits):
            fit = _fit(form, field, value)
            if fit is _Fit.NOT:
                del fits[form]
            else:
                fits[form].add(fit)
    return next((form for form in _FORMS if _Fit.CERTAIN in fits.get(form, ())), None)


def _fit(form: StoredForm, field: bytes, value: bytes) -> _Fit:
    if form.base64:
        decoded = base64_text.decode(field), base64_text.decode(value)
        if decoded[0] is None or decoded[1] is None:
            return _Fit.NOT
        field, value = decoded[0], decoded[1]
    if form.generation is Generation.STORM_1_0:
        return _fit_of_1_0(field, value, base64=form.base64)
    return _Fit.NOT if unwrap(value, form.generation) is None else _Fit.CERTAIN


def _fit_of_1_0(field: bytes, value: bytes, *, base64: bool) -> _Fit:
    if unwrap(value, Generation.STORM_1_1) is not None:
        return _Fit.NOT
    try:
        key_is, value_is = _look(field), _look(value)
    except SerializationError:
        return _Fit.NOT
    # The keys of Storm 1.2 look like those of 1.0, and its values like an object of a user's class.
    certain = key_is or value_is if base64 else value_is and unwrap(value) is None
    return _Fit.CERTAIN if certain else _Fit.POSSIBLE


def _look(data: bytes) -> bool:
    """Return whether bytes are of Kryo 3 for sure; they may be, where they begin with the id of a registered class.

    Raises:
        SerializationError: They are not.
    """
    try:
        _STORM_1_0.decode_key(data)
    except UnsupportedJavaClass as unsupported:
        if unsupported.class_id is not None and unsupported.class_id > _HIGHEST_ID:
            raise
        return unsupported.class_id is None
    return True
