import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_the_command_reference_is_up_to_date(tmp_path):
    """`make docs` writes it."""
    fresh = tmp_path / "cli.md"
    command = [sys.executable, "-m", "typer", "unmask.cli.main", "utils", "docs", "--name",
               "unmask", "--output", str(fresh)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    assert fresh.read_text() == (DOCS / "cli.md").read_text()


@pytest.mark.parametrize("name", ["README.md", "docs/words.md", "docs/design.md"])
def test_links_in_the_docs_lead_somewhere(name):
    import re

    page = DOCS.parent / name
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
