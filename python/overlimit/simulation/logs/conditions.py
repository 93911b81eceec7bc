"""What is asked of a table of a log's columns: which rows to read, and how they are labelled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from overlimit._messages.texts import short_repr
from overlimit.simulation.events.instants import Micros
from overlimit.simulation.optional import loaded, required

if TYPE_CHECKING:
    import pandas as pd

Where: TypeAlias = "str | Callable[[pd.DataFrame], Any]"
Values: TypeAlias = "Callable[[pd.DataFrame], Any]"
"""Returns a column, with a value for each row of a table."""
Labels: TypeAlias = "str | Values"


class UnknownName(ValueError):
    """A condition names a column that is not there."""


def rows_where(where: Where, frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows fulfil a condition; ValueError for unknown columns, TypeError for no bools."""
    return _mask(where(frame) if callable(where) else _evaluated(frame, where), len(frame))


def values_of(function: Values, frame: pd.DataFrame, argument: str) -> Any:
    """Return what a function says of the rows of a table; TypeError if that is no value for each."""
    found = function(frame)
    if isinstance(found, str) or not hasattr(found, "__len__") or hasattr(found, "columns"):
        raise TypeError(f"{argument}= must return a column with a row for each, not {short_repr(found)}")
    if len(found) != len(frame):
        raise TypeError(
            f"{argument}= must return a value for each of {len(frame)} rows, and gave {len(found)}"
        )
    return found


def frame_of(
    columns: Mapping[str, Any], time: str, micros: Micros, rows: npt.NDArray[np.bool_]
) -> pd.DataFrame:
    """Return the columns of a log, of some rows, as a table with its times in UTC."""
    pandas = required("pandas", "where=")
    series = {name: series_of(pandas, each) for name, each in columns.items()}
    series[time] = pandas.DatetimeIndex(np.maximum(micros, 0).view("datetime64[us]")).tz_localize("UTC")
    frame: pd.DataFrame = pandas.DataFrame(series)
    return frame.loc[rows]


def series_of(pandas: Any, column: Any) -> Any:
    """Return a column as one that pandas can hold, texts as objects."""
    pyarrow = loaded("pyarrow")
    if pyarrow is not None and isinstance(column, pyarrow.DictionaryArray):
        return column.cast(column.type.value_type).to_pandas()
    if hasattr(column, "to_pandas"):
        return column.to_pandas()
    texts = isinstance(column, (list, tuple)) and {type(each) for each in column} <= {str, type(None)}
    return pandas.Series(column, dtype=object) if texts else column


def _evaluated(frame: pd.DataFrame, where: str) -> Any:
    names = required("pandas", "where=").errors.UndefinedVariableError
    if not where.strip():
        raise ValueError(f"where must be a condition such as 'status != 404', not {where!r}")
    try:
        return frame.eval(where)
    except names as error:
        raise UnknownName(
            f"where={where!r}: {error}; there are {', '.join(map(repr, frame.columns))}"
        ) from None
    except SyntaxError as error:
        raise ValueError(f"where={where!r} is no condition: {error.msg}") from None
    except UnicodeEncodeError:
        raise ValueError(f"where={where!r} is no condition: UTF-8 cannot encode it") from None
    except TypeError as error:
        hint = ""
        if "datetime64" in str(error):
            hint = "; times have an offset, as in \"time >= '2025-10-26 01:00+00:00'\""
        raise TypeError(f"where={where!r}: {error}{hint}") from None


def _mask(found: Any, count: int) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[Any] = np.asarray(found.fillna(False) if hasattr(found, "fillna") else found)
    if mask.shape == () and mask.dtype == bool:
        mask = np.full(count, bool(mask))
    if mask.dtype == object and {type(each) for each in mask.tolist()} <= {bool}:
        mask = mask.astype(bool)
    if mask.dtype != bool or mask.shape != (count,):
        raise TypeError(
            f"where must say true or false for each of {count} rows, as in 'status == 404', and gave "
            f"{type(found).__name__} of {mask.dtype}"
        )
    return mask
