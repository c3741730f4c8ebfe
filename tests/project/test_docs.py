"""The documentation is complete and leads somewhere: settings, error codes, links, decisions."""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel
from quart_trio import QuartTrio

from bodyd import cli, errors, http
from bodyd.config import Config
from bodyd.contract import actions
from bodyd.http.routing import Api

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])


def settings(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every setting with its default, by dotted name."""
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            yield from settings(type(default), f"{prefix}{name}.")
        else:
            yield prefix + name, default


def as_toml(value: object) -> str:
    if value is None:
        return "none"
    shown = json.dumps(list(value) if isinstance(value, tuple) else value)
    return shown if value is None else f"`{shown}`"


def rows(page: str) -> dict[str, list[str]]:
    """The rows of a page's tables whose first cell is a `name`."""
    found = {}
    for line in (DOCS / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            found[cells[0].strip("` |")] = cells[1:]
    return found


def leaves(root: type[errors.BodydError]) -> Iterator[type[errors.BodydError]]:
    """The classes that have a code of their own; the others only group."""
    if "code" in vars(root):
        yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from leaves(child)


def test_every_setting_is_documented_with_its_default() -> None:
    """docs/reference/configuration.md has a row for each setting, with the default that holds; no other."""
    documented = {name: cells[0] for name, cells in rows("reference/configuration.md").items()}
    assert documented == {name: as_toml(default) for name, default in settings(Config)}


def test_every_error_code_is_documented() -> None:
    """docs/reference/errors.md has a row for each code, with its status and whether to retry; no other."""
    documented = {code: cells[:2] for code, cells in rows("reference/errors.md").items()}
    actual = {
        leaf.code: [str(leaf.status), "yes" if leaf.retryable else "no"] for leaf in leaves(errors.BodydError)
    }
    assert documented == actual


def test_every_route_is_documented_with_its_scope() -> None:
    """docs/reference/http-api.md has a row for each route, with the scope that it needs, and no other."""
    api = Api(QuartTrio("routes"))
    for module in pkgutil.iter_modules(http.__path__, "bodyd.http."):
        if module.name.startswith("bodyd.http.routes_"):
            importlib.import_module(module.name).add(api)
    documented = {
        route: cells[0].split(",")[0]
        for route, cells in rows("reference/http-api.md").items()
        if route.startswith(("GET", "POST", "DELETE"))
    }
    assert documented == {f"{method} {path}": needs.value for method, path, needs in api.table()}


def test_every_command_is_documented_with_its_options() -> None:
    """docs/reference/cli.md has a row for each subcommand, which names each of its options; no other."""
    (subcommands,) = (act for act in cli._parser()._actions if isinstance(act, argparse._SubParsersAction))
    documented = {name: cells[0] for name, cells in rows("reference/cli.md").items()}
    assert documented.keys() == subcommands.choices.keys()
    missing = [
        f"{name} {option}"
        for name, command in subcommands.choices.items()
        for action in command._actions
        for option in action.option_strings[-1:]
        if option != "--help" and f"`{option}" not in documented[name]
    ]
    assert missing == []


def test_every_input_type_is_documented() -> None:
    """docs/reference/http-api.md names each type of input that the door takes."""
    page = (DOCS / "reference/http-api.md").read_text()
    assert sorted(kind for kind in actions.TYPES if f"`{kind}`" not in page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file (and, behind a #, a heading) that exists."""
    dead = []
    for target in re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"https?://|mailto:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name) if name else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            dead.append(target)
    assert not dead


def test_pictures_exist() -> None:
    """Every picture that a page shows is there."""
    shown = [
        page.parent / target
        for page in PAGES
        for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.read_text())
    ]
    assert shown
    assert [str(path) for path in shown if not path.exists()] == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index() -> None:
    """docs/index.md leads to every page of the documentation."""
    linked = {
        (DOCS / target.partition("#")[0]).resolve()
        for target in re.findall(r"\]\(([^)\s]+)\)", (DOCS / "index.md").read_text())
    }
    left_out = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.resolve() not in linked]
    assert left_out == ["index.md"]


def test_decisions_are_numbered_once() -> None:
    """docs/decisions/NNNN-title.md: no number is taken twice, and each page begins with its own."""
    pages = sorted((DOCS / "decisions").glob("*.md"))
    assert all(re.match(r"\d{4}-", page.name) for page in pages)
    assert len({page.name[:4] for page in pages}) == len(pages)
    assert [page.name for page in pages if not page.read_text().startswith(f"# {page.name[:4]} ")] == []


def test_the_readme_begins_with_the_two_commands_and_a_picture() -> None:
    """Before anything is explained, the README says how to run it, how to test it, and shows a body."""
    head = (ROOT / "README.md").read_text().split("\n\n![")[0]
    assert "make run" in head
    assert "make test" in head
    assert len(head.splitlines()) <= 8


def test_the_changelog_has_this_version() -> None:
    """The version that the package states has a section."""
    from bodyd import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", ["cases.md", "criteria.md"])
def test_every_case_names_tests_that_exist(name: str) -> None:
    """A test that was renamed or dropped takes its case's proof along."""
    page = (ROOT / "docs" / "reference" / name).read_text()
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", page)
    assert len(named) > 30
    for file, test in named:
        assert re.search(rf"def {test}\(", (ROOT / "tests" / file).read_text()), f"{file}::{test}"
