"""Objects that say so when they are used without having been initialised."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar


class Initialised:
    """An object whose attributes need its ``__init__``: without that, AttributeError says what is missing.

    Such objects come of ``__new__`` alone, of a subclass that does not call ``super().__init__``, or of an
    ``__init__`` that raised.
    """

    __slots__ = ()

    _set_last: ClassVar[str]
    """The attribute that ``__init__`` sets last."""

    # A type checker shall go on telling of attributes that are not there.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            check_initialised(self, self._set_last, name)
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )


def check_initialised(value: object, set_last: str, name: str) -> None:
    """Raise AttributeError, about ``name``, unless the attribute is set that the constructor sets last."""
    try:
        object.__getattribute__(value, set_last)
    except AttributeError:
        raise AttributeError(
            f"this {type(value).__name__} was not initialised: its __init__ was never called "
            "or did not finish",
            name=name,
            obj=value,
        ) from None
