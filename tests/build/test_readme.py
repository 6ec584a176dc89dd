# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""What the documents at the root say is so."""

import doctest
import json
import os
import re
from pathlib import Path, PurePosixPath

import pytest

RUNFILES = Path(os.environ["TEST_SRCDIR"])
ROOT = RUNFILES / os.environ["TEST_WORKSPACE"]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


def python_examples(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def tree() -> set[str]:
    """Every file and folder of the source tree."""
    packages = json.loads((RUNFILES / "source_tree/packages.json").read_text())
    files = {
        PurePosixPath(name) / file
        for name, package in packages.items()
        for file in package["files"]
    }
    folders = {folder for file in files for folder in file.parents}
    return {str(path) for path in files | folders}


def test_the_readme_example_runs() -> None:
    examples = python_examples((ROOT / "README.md").read_text())
    assert examples
    for example in examples:
        parsed = doctest.DocTestParser().get_doctest(example, {}, "README.md", "README.md", 0)
        assert len(parsed.examples) >= 5
        output: list[str] = []
        results = doctest.DocTestRunner(verbose=False).run(parsed, out=output.append)
        assert results.failed == 0, "".join(output)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_into_the_tree_lead_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / document).read_text())
    inside = [link for link in links if "://" not in link]
    known = tree()
    # Hidden files are in no package's listing; they are data of this test.
    assert [link for link in inside if link not in known and not (ROOT / link).exists()] == []


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_every_target_named_is_there(document: str) -> None:
    # In commands only: elsewhere a label may be one that the reader is to make.
    commands = "".join(
        re.findall(r"^```sh\n(.*?)^```$", (ROOT / document).read_text(), flags=re.M | re.S)
    )
    labels = set(re.findall(r"//([a-z_/]+):([a-z_]+)", commands))
    assert labels
    rules = {
        line.partition(" ")[0]
        for arrows in ROOT.rglob("lint_arrows.txt")
        for line in arrows.read_text().splitlines()
    }
    assert [
        f"//{package}:{name}" for package, name in labels if f"//{package}:{name}" not in rules
    ] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_names_a_machine(document: str) -> None:
    text = (ROOT / document).read_text()
    assert re.findall(r"/(?:home|root|work|tmp)/\S*|https?://(?:deb|pypi|registry)\S*", text) == []
