"""The documentation holds: its examples run and print what it says, its links and tests are there.

Each ``python`` block runs on its own, in a process of its own; a ``text`` block right below is its output.
One that defines tests is run by pytest.
"""

from __future__ import annotations

import ast
import inspect
import re
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpydoc.docscrape
import pytest

import blocks
import overlimit.flask
from overlimit.http.options import configuration

ROOT = Path(__file__).parents[2]
DOCS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
PAGES = ("README.md", "CONTRIBUTING.md", *DOCS)
SYSTEMS = "docs/appendix/systems.md"
REDIS_URL = re.compile(r"redis://localhost:6379/0(\?[^\"`]*)?")
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.M | re.S)
LINK = re.compile(r"\]\((?!https?://)(?P<target>[^)#]*)(?:#(?P<heading>[^)]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
FOLDERS = ("benchmarks", "cpp", "examples", "lua", "python", "tests")
SUFFIXES = {".cpp", ".hpp", ".json", ".lua", ".md", ".py", ".pyi"}
NAMED_PAGE = re.compile(r"\b(docs/[\w/]+\.md)(?:#([\w-]+))?")
NAMED_PATH = re.compile(r"`((?:benchmarks|cmake|cpp|examples|lua|python|scripts|tests)/[a-z0-9_./]+)[`:]")
NOT_SHIPPED = "gcra"  # the example of docs/adding_an_algorithm.md
NAMED_TEST = re.compile(r"tests/\w+(?:/\w+)*\.py(?:::\w+)+")
DRAWS = re.compile(r"\bplot_\w+\(|\.plot\(")
LISTED = ("Attributes", "Parameters", "Raises", "Returns")
FLAW_TABLE = re.compile(r"^\| flaw \| instead \| test \|\n\|[ -|]+\n(?P<rows>(?:^\|.*\n)+)", re.M)


MODULES = [
    import_module(name)
    for name in (
        *("overlimit", "overlimit.recipes", "overlimit.testing", "overlimit.aio", "overlimit.flask"),
        *("overlimit.django", "overlimit.fastapi", "overlimit.quart", "overlimit.asgi", "overlimit.wsgi"),
        *("overlimit.requests", "overlimit.httpx", "overlimit.aiohttp", "overlimit.http"),
        *("overlimit.http.fields", "overlimit.jobs", "overlimit.metrics", "overlimit.simulation"),
    )
]


class Example(NamedTuple):
    """A block of code, where it stands, and what it prints; None: the page doesn't say."""

    place: str
    code: str
    output: str | None


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def texts_of_sources() -> list[str]:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    return [path.read_text(encoding="utf-8") for path in files]


def examples_of(page: str) -> list[Example]:
    text = text_of(page)
    return [
        Example(f"{page}:{text.count(chr(10), 0, block.start()) + 2}", block["code"], block["output"])
        for block in BLOCK.finditer(text)
    ]


def anchors_of(path: Path) -> set[str]:
    headings = HEADING.findall(FENCED.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-") for heading in headings}


EXAMPLES = [example for page in PAGES for example in examples_of(page)]


def test_no_example_is_overlooked():
    for page in PAGES:
        assert len(examples_of(page)) == text_of(page).count("```python")
    assert len(EXAMPLES) >= 60
    assert len([example for example in EXAMPLES if example.output]) >= 50


def test_every_key_of_the_configuration_is_in_the_help_or_the_page_on_flask():
    told = f"{overlimit.flask.RateLimit.__doc__} {text_of('docs/reference/flask.md')}"
    assert set(re.findall(r"\b(RATELIMIT_[A-Z0-9_]+)\b", told)) == set(configuration.KEYS)


def test_every_public_name_is_in_the_index_of_names():
    listed = set()
    for title, names in re.findall(
        r"^## (.+)\n\n((?:`\w+`(?:,\s)?)+)\n", text_of("docs/reference/api.md"), re.M
    ):
        module = title if title.startswith("overlimit.") else "overlimit"
        listed |= {f"{module}.{name}" for name in re.findall(r"\w+", names)}
    listed |= {
        f"overlimit.{name}" for name in re.findall(r"\{py:type\} (\w+)", text_of("docs/reference/api.md"))
    }
    modules = {module.__name__: module for module in MODULES}
    parts = [name.rpartition(".") for name in listed]
    values = [getattr(modules[module], name) for module, _, name in parts if module in modules]
    missing = {
        f"{module.__name__}.{name}"
        for module in MODULES
        for name in module.__all__
        if f"{module.__name__}.{name}" not in listed and getattr(module, name) not in values
    }
    assert missing == {
        "overlimit.__version__",
        "overlimit.http.fields.HeadersLike",
        "overlimit.simulation.traffic",  # whose functions have a section of their own
    }


def test_every_page_is_in_the_navigation_of_the_site():
    text = text_of("docs/_site/navigation.py")
    pages = {page.removeprefix("docs/").removesuffix(".md") for page in DOCS} - {"index"}
    assert [page for page in pages if not re.search(rf'[ "]{page}[ "]', text)] == []


def test_llms_txt_has_a_line_for_each_page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_site")
    import llms

    lines = llms.llms_text(ROOT / "docs").splitlines()
    assert lines[0] == "# overlimit"
    assert re.fullmatch(r"> Rate limiting .*\.", lines[2])
    found = [
        re.fullmatch(r"- \[[^\]]+\]\((\S+)\.html\): .{20,}[.?]", line) for line in lines if line[:1] == "-"
    ]
    pages = [f"docs/{each[1]}.md" for each in found]
    assert sorted(pages) == sorted(set(DOCS) - {"docs/index.md"})


FACTOR_PAGES = {"README.md": 4, "docs/index.md": 4, "docs/performance.md": 25}
"""Pages with tables of factors, each with how many there are at least."""


@pytest.mark.parametrize("page", FACTOR_PAGES)
def test_pages_show_the_factors_of_the_last_full_run(page, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from measuring import factors, report

    kept = report.read(ROOT / "docs" / "benchmarks" / "results.json")
    text = text_of(page)
    assert factors.page_with(text, kept) == text
    tables = re.findall(r"^<!-- factors: \w+ -->\n(.*?)^<!-- end -->", text, re.M | re.S)
    rows = re.findall(r"^\| (\D[^|]*) \| ([\d.]+) \|", "".join(tables), re.M)
    assert len(rows) >= FACTOR_PAGES[page]
    (of_a_hit,) = [
        each.ratio
        for each in kept.of("redis")
        if (each.title, each.name) == ("One hit after the other", "overlimit, one sliding window")
    ]
    assert float(dict(rows)["a hit in Redis"]) == pytest.approx(of_a_hit, abs=0.005)


def documented() -> Iterator[tuple[str, object]]:
    """Yield the public classes, their members and the public functions, each with its name."""
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            yield name, value
            members = vars(value) if isinstance(value, type) else {}
            yield from (
                (f"{name}.{each}", members[each])
                for each in members
                if not each.startswith("_") or each == "__init__"
            )


def test_the_index_of_names_shows_no_sentence_as_a_parameter_or_an_error():
    def wrong(value: object, kind: str, rows: list[numpydoc.docscrape.Parameter]) -> list[str]:
        names = [name for row in rows for name in re.split(r", | or ", row.name or row.type)]
        if kind == "Parameters":
            known = inspect.signature(getattr(value, "__func__", value)).parameters
            takes_more = inspect.Parameter.VAR_KEYWORD in {each.kind for each in known.values()}
            return [name for name in names if name not in known and not (takes_more and name.isidentifier())]
        return [name for name in names if not re.fullmatch(r"[\w.]+( of [\w ]+|\[.*)?", name)]

    sections = [
        (name, kind, wrong(value, kind, parsed[kind]))
        for name, value in documented()
        for parsed in [numpydoc.docscrape.NumpyDocString(inspect.getdoc(value) or "")]
        for kind in LISTED
        if parsed[kind]
    ]
    assert len(sections) >= 80
    assert [(name, words) for name, _, words in sections if words] == []


def test_every_page_that_the_sources_name_exists():
    named = {page for text in texts_of_sources() for page in NAMED_PAGE.findall(text)}
    assert len(named) >= 8
    assert [page for page, _ in sorted(named) if not (ROOT / page).is_file()] == []
    headings = [(page, heading) for page, heading in sorted(named) if heading]
    assert [each for each in headings if each[1] not in anchors_of(ROOT / each[0])] == []


def test_every_file_that_a_page_names_exists():
    named = {path for page in PAGES for path in NAMED_PATH.findall(text_of(page)) if NOT_SHIPPED not in path}
    assert len(named) >= 60
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_word_of_the_glossary_is_used():
    glossary = text_of("docs/architecture.md").partition("## Glossary")[2]
    words = re.findall(r"^\| (\w[\w ]*) \| \w", glossary, re.M)
    text = "\n".join([*texts_of_sources(), text_of("Makefile")])
    assert len(words) >= 10
    assert [word for word in words if not re.search(rf"\b{word}", text, re.I)] == []


def names_in(file: str) -> Iterator[str]:
    """Yield the names of the tests in a file, and of their classes, as pytest has them."""
    for node in ast.parse(text_of(file)).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name.lower().startswith("test"):
            yield f"{file}::{node.name}"
            inner = node.body if isinstance(node, ast.ClassDef) else []
            yield from (f"{file}::{node.name}::{each.name}" for each in inner if hasattr(each, "name"))


def test_every_test_that_a_page_names_exists():
    named = {test for page in PAGES for test in NAMED_TEST.findall(text_of(page))}
    assert len(named) >= 30
    files = {test.partition("::")[0] for test in named}
    assert named - {test for file in files for test in names_in(file)} == set()


def test_every_flaw_of_a_documented_system_has_a_test():
    tables = [table["rows"].splitlines() for table in FLAW_TABLE.finditer(text_of(SYSTEMS))]
    assert [len(rows) for rows in tables] == [8, 14, 8, 11, 13]
    rows = [row for table in tables for row in table]
    assert [row for row in rows if not NAMED_TEST.search(row)] == []


@pytest.fixture
def on_real_redis(start_redis):
    """Return a function that puts a server of this test, still empty, in the place of the one in a string."""

    def substituted(code: str) -> str:
        if not REDIS_URL.search(code):
            return code
        url = start_redis().tcp_url()
        return REDIS_URL.sub(lambda given: f"{url}{given[1] or '?'}&timeout=10", code)

    return substituted


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.place for example in EXAMPLES])
def test_an_example_runs_on_its_own_and_prints_what_the_page_says(example, on_real_redis, tmp_path, request):
    if "SharedMemoryStore" in example.code:
        request.getfixturevalue("shared_memory")
    if "shop_day.log.gz" in example.code:
        shutil.copy(ROOT / "examples" / "shop_day.log.gz", tmp_path)
    run = blocks.run(on_real_redis(example.code), tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    if example.output is not None:
        assert run.stdout == example.output
    assert run.stdout != "" or DRAWS.search(example.code)
    assert "no decision" not in run.stdout


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for link in LINK.finditer(FENCED.sub("", text_of(page))):
        path = (ROOT / page).parent / link["target"] if link["target"] else ROOT / page
        assert path.is_file(), link[0]
        if page.startswith("docs/"):  # the site has nothing else
            assert path.resolve().is_relative_to(ROOT / "docs"), link[0]
        assert link["heading"] is None or link["heading"] in anchors_of(path), link[0]
