"""Settings as the engine reads them, and other small things that several modules say in the same way."""

from __future__ import annotations

import difflib
import operator
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode


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


def demand(name: str, value: Any, kind: type | tuple[type, ...], allowed: str) -> None:
    """Raises a `TypeError` that names an argument, unless it is of a kind.

    >>> demand("policy", 5, str, "the name of a policy")
    Traceback (most recent call last):
    ...
    TypeError: policy is 5, but must be the name of a policy
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r}, but must be {allowed}")


def to_flag(name: str, value: Any) -> bool:
    """A bool and nothing else: every text is true, "False" as well."""
    demand(name, value, (bool, np.bool_), "True or False")
    return bool(value)


def to_texts(name: str, value: Any, allowed: str) -> list[str]:
    """Texts, of which a single one may come without a list."""
    texts = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} is {value!r}, but must be {allowed}")
    return texts


def to_path(name: str, value: Any) -> str:
    """A path as a text."""
    demand(name, value, (str, os.PathLike), "a path: a text or a pathlib.Path")
    return str(os.fspath(value))


def to_numbers(name: str, value: Any) -> npt.NDArray[np.float64]:
    """Numbers as an array."""
    try:
        return np.ascontiguousarray(value, np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} is {value!r}, but must be a number or an array of numbers") from None


def to_mode(value: Any) -> AutoresetMode:
    """An autoreset mode, from its name as well."""
    known = [mode.value for mode in AutoresetMode]
    if isinstance(value, str) and value not in known:
        near = next((f"; did you mean {name!r}?" for name in known if name.lower() == value.lower()), "")
        raise ValueError(f"autoreset_mode is {value!r}, but must be one of {', '.join(map(repr, known))}{near}")
    demand("autoreset_mode", value, (str, AutoresetMode), f"one of {', '.join(map(repr, known))}")
    return AutoresetMode(value)


def missing(what: str, library: str, extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """What to say where an optional library is not installed."""
    return ModuleNotFoundError(f'{what} needs {library}: pip install ".[{extra}]" ({error})', name=error.name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a mistyped one, if any is like it.

    >>> nearest("gravit", ["gravity", "length"]), nearest("zzz", ["gravity"])
    ('gravity', None)
    """
    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)


def own_name(env: str) -> str:
    """The name of an environment, which Gymnasium knows in the namespace ``phalanx/``."""
    demand("env", env, str, "the name of an environment, such as 'CartPole-v1'")
    return env.removeprefix("phalanx/")


def to_whole(name: str, value: Any) -> int:
    """A whole number, from anything that stands for one."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, but must be a whole number") from None


def to_count(name: str, value: Any) -> int:
    """How many of something, from anything that stands for a whole number.

    >>> to_count("steps", -3)
    Traceback (most recent call last):
    ...
    ValueError: steps is -3, but must be a whole number from 1 to 2**63 - 1
    """
    number = to_whole(name, value)
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
