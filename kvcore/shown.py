"""One-line reprs, however much they hold."""

from reprlib import Repr

from pydantic import BaseModel

_SHORT = Repr()
_SHORT.maxtuple = _SHORT.maxlist = _SHORT.maxdict = 3
_SHORT.maxstring = _SHORT.maxother = 100


def brief(value: object) -> str:
    """Return a value's repr, cut where it is long."""
    return _SHORT.repr(value)


class Shown(BaseModel):
    """A model whose repr has the fields that differ from their defaults: `Machine(memory=8)`."""

    def __repr__(self) -> str:
        given = (
            f"{name}={brief(value)}"
            for name, field in type(self).model_fields.items()
            if (value := getattr(self, name)) != field.get_default(call_default_factory=True)
        )
        return f"{type(self).__name__}({', '.join(given)})"

    def __str__(self) -> str:
        return repr(self)
