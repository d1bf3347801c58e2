"""`fedlapse schema`: for editors, or to read."""

import json

import pytest

from scenarios.describe import json_schema
from scenarios.reference import markdown

pytestmark = pytest.mark.slow  # all models are imported for their names


def test_it_prints_the_schema_that_editors_read(fedlapse):
    assert json.loads(fedlapse("schema").stdout) == json_schema()


def test_with_markdown_it_prints_the_same_as_tables(fedlapse):
    assert fedlapse("schema", "--markdown").stdout == markdown(json_schema()) + "\n"
