"""The figures that `make numbers` counts."""

from tests.numbers import statements

TEXT = '''"""A module."""
import os

class Thing:
    """One."""

    size = 1

    def grow(self) -> None:
        """Grows."""
        if self.size:
            self.size += 1; print()
        "no docstring"
'''


def test_statements_are_counted_without_docstrings() -> None:
    """import, class, size, def, if, two behind it, and a string that documents nothing."""
    assert statements(TEXT) == 8
