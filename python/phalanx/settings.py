"""Settings as the engine reads them, and other small things that several modules say in the same way."""

from __future__ import annotations

import difflib
import operator
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def is_row(value: object) -> bool:
    """Whether a value is one for each of several; an array without axes is a single one.

    >>> is_row([1.0, 2.0]), is_row(np.array(5.0))
    (True, False)
    """
    return isinstance(value, (list, tuple)) or isinstance(value, np.ndarray) and value.ndim > 0


def setting_text(value: Any) -> str:
    """A value as configurations and the engine spell it: `True` is `true`, a range is the text `low..high`."""
    if isinstance(value, np.generic) or not is_row(value) and isinstance(value, np.ndarray):
        value = value.item()
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ",".join(setting_text(item) for item in value) + "]"
    if isinstance(value, (int, str)):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise TypeError(f"a setting is a {type(value).__name__}, but must be a number, a text, a bool, a list or None")


def setting_texts(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Keys and values as configurations spell them.

    ``section__key`` stands for ``section.key``, and a mapping for all keys of a section.
    """
    texts: list[tuple[str, str]] = []
    for name, value in settings.items():
        key = name.replace("__", ".", 1)
        if isinstance(value, Mapping):
            texts += [(f"{key}.{inner}", setting_text(item)) for inner, item in value.items()]
        else:
            texts.append((key, setting_text(value)))
    return texts


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a mistyped one, if any is like it.

    >>> nearest("gravit", ["gravity", "length"]), nearest("zzz", ["gravity"])
    ('gravity', None)
    """
    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)


def own_name(env: str) -> str:
    """The name of an environment, which Gymnasium knows in the namespace ``phalanx/``."""
    return env.removeprefix("phalanx/")


def to_count(name: str, value: Any) -> int:
    """How many of something, from anything that stands for a whole number.

    >>> to_count("steps", -3)
    Traceback (most recent call last):
    ...
    ValueError: steps is -3, but must be a whole number from 1 to 2**63 - 1
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, but must be a whole number") from None
    if not 1 <= number < 2**63:
        raise ValueError(f"{name} is {number}, but must be a whole number from 1 to 2**63 - 1")
    return number


def tell(text: str) -> None:
    """Tells of a search: through Python, so that notebooks show it."""
    show(sys.stderr, text)


def show(out: Any, text: str) -> None:
    """Writes at once, unless there is nothing to write to: telling how far a run is must not end it.

    Programs without a console have None for standard error, daemons a closed one, others what can only be written to.
    """
    flush = getattr(out, "flush", None)
    try:
        if out is not None:
            out.write(text)
        if flush is not None:
            flush()
    except (OSError, ValueError):
        # A closed file is a ValueError, one whose other end is gone an OSError.
        pass
