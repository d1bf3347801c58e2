"""The page of failures says what the commands say."""

from pathlib import Path

import pytest

from tests.docs.failures import CASES, page

PAGE = Path(__file__).parents[2] / "docs" / "failures.md"


@pytest.mark.slow
def test_the_page_has_twenty_failures_with_the_messages_of_the_commands():
    assert len(CASES) == 20
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.docs.failures > docs/failures.md"
