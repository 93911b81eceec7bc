"""Measure overlimit beside other libraries and beside a floor below which nothing can be: benchmarks/run.py.

All contestants of a table take turns in this run, and medians over the rounds count. Without a PART, all
parts are measured, which takes about twelve minutes. Needs the dependency groups ``bench`` and ``test``; the
parts ``engine`` and ``redis`` need programs that ``make build/done/bench-cpp`` builds.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path

from measuring import factors, figures, machine, report, tables, turns

PARTS = (
    "memory",
    "engine",
    "threads",
    "processes",
    "own_stores",
    "redis",
    "server",
    "leases",
    "latency",
    "databases",
    "web",
    "tasks",
    "replay",
    "reading",
    "growth",
)
ROOT = Path(__file__).parents[1]
KEPT = ROOT / "docs" / "benchmarks" / "results.json"
PAGES = ("README.md", "docs/index.md", "docs/performance.md")


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    about = "\n".join(f"  {part:12}{first_line(part)}" for part in PARTS)
    parser = argparse.ArgumentParser(
        prog="benchmarks/run.py",
        description=__doc__,
        epilog=f"parts:\n{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", metavar="PART", nargs="*", help="what to measure (default: everything)")
    parser.add_argument(
        "--quick", action="store_true", help="try it out, in less than a minute; the figures mean little"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured to a file")
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="FILE", help="measure nothing: take such a file"
    )
    parser.add_argument("--figures", type=Path, metavar="FOLDER", help="write the figures, as SVG")
    parser.add_argument("--tables", action="store_true", help="print the tables in Markdown")
    parser.add_argument(
        "--docs", action="store_true", help="keep all of it for the site, and put its factors into pages"
    )
    given = parser.parse_args(words)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))} (parts are {', '.join(PARTS)})")
    if given.docs and given.parts:
        parser.error("--docs takes all parts, of one run")
    return given


def first_line(part: str) -> str:
    """Return what a part's module says about itself, without importing what it measures."""
    text = (Path(__file__).parent / "parts" / f"{part}.py").read_text(encoding="utf-8")
    return text.removeprefix('"""').split("\n", 1)[0].removesuffix('"""')


def measured(parts: list[str], effort: turns.Effort) -> report.Report:
    found = report.Report(machine.facts(), effort.rounds)
    for part in parts:
        began = time.monotonic()
        measure_part(part, effort, found)
        say(f"{part}: {time.monotonic() - began:.0f} s")
    return found


def measure_part(part: str, effort: turns.Effort, found: report.Report) -> None:
    for each in importlib.import_module(f"parts.{part}").contests(effort):
        if isinstance(each, str):
            found.remarks.setdefault(part, []).append(each)
            say(f"{part}: {each}")
            continue
        say(f"{part}: {each.title} ({len(each.contestants)} contestants)")
        found.records += turns.measure(part, each, each.rounds or effort.rounds)


def say(progress: str) -> None:
    print(progress, file=sys.stderr, flush=True)


def show(found: report.Report, parts: list[str], in_markdown: bool) -> None:
    """Print the tables of some parts."""
    if in_markdown:
        print(f"{machine.sentence(found.machine)}\n")
        print("\n\n".join(tables.markdown_of_part(found, part) for part in parts))
    else:
        tables.show(table for part in parts for table in tables.tables_of(found.of(part)))


def draw(found: report.Report, parts: list[str], folder: Path) -> None:
    for part in parts:
        figures.write_figures(folder, part, found.of(part))


def main() -> None:
    given = parsed()
    parts = [part for part in PARTS if part in given.parts] or list(PARTS)
    effort = turns.QUICK if given.quick else turns.FULL
    found = report.read(given.source) if given.source else measured(parts, effort)
    shown = [part for part in found.parts() if part in parts]
    if given.json:
        found.write(given.json)
    if given.figures:
        draw(found, shown, given.figures)
    if given.docs:
        found.write(KEPT)
        for page in PAGES:
            factors.put_into_page(ROOT / page, found)
    show(found, shown, given.tables)


if __name__ == "__main__":
    main()
