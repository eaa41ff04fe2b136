"""`override` marks a method that replaces one of a base class (PEP 698); mypy checks every mark.

The standard library has it from Python 3.12 on. Until then type checkers take it from typing_extensions,
and running programs do without: what does nothing need not be loaded by every command.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method: object) -> object:
        """Return the method as it is."""
        return method


__all__ = ["override"]
