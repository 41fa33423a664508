# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks say today, beside docs/design/performance.md.

    build/release/tests/shardplan_bench | python3 tests/bench/against_page.py

Prints what it reads, and then a table. Machines differ: the time that bare
RE2::Set takes, which is not our code, says how much, and `scaled` is the ratio
without that. Peak memory is not scaled.
"""

import pathlib
import re
import sys

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "design" /
        "performance.md")


def number(text):
    return float(re.search(r"[\d,.]+", text).group().replace(",", ""))


def rows(page):
    """Cells of all rows of all tables, numbers without separators."""
    for line in page.splitlines():
        if line.startswith("|") and not line.startswith("|-"):
            yield [cell.strip().replace("`", "")
                   for cell in line.strip("|").split("|")]


def from_page(page):
    """{(what, ..): value}: seconds, megabytes, nanoseconds a name."""
    known = {}
    for cells in rows(page):
        if len(cells) == 5 and cells[1] in ("text", "JSON"):
            tensors, form = int(number(cells[0])), cells[1].lower()
            known["seconds", tensors, form] = number(cells[2])
            known["megabytes", tensors, form] = number(cells[3])
        elif len(cells) == 4 and re.fullmatch(r"[\d,]+", cells[0]):
            count = int(number(cells[0]))
            known["ours", count] = number(cells[1])
            known["RE2::Set", count] = number(cells[2])
        elif len(cells) == 3 and cells[0].startswith("shardplan"):
            known["reading"] = number(cells[1])
    return known


def from_output(text):
    now = {}
    for line in text.splitlines():
        found = re.match(r"\s+(\d+) tensors\s+(\w+)\s+([\d.]+) s CPU\s+"
                         r"(\d+) MB peak", line)
        if found:
            tensors, form = int(found.group(1)), found.group(2)
            now["seconds", tensors, form] = float(found.group(3))
            now["megabytes", tensors, form] = float(found.group(4))
        found = re.match(r"\s+(\d+) rules\s+(shardplan|bare RE2::Set)\s+"
                         r"(\d+) ns", line)
        if found:
            who = "ours" if found.group(2) == "shardplan" else "RE2::Set"
            now[who, int(found.group(1))] = float(found.group(3))
        found = re.match(r"\s+shardplan: into a manifest.*?(\d+) MB/s", line)
        if found:
            now["reading"] = float(found.group(1))
    return now


def label(key):
    if key == "reading":
        return "reading JSON, MB/s"
    if key[0] == "ours":
        return f"matching, {key[1]:,} rules, ns a name"
    unit = "CPU s" if key[0] == "seconds" else "peak MB"
    return f"resolve, {key[1]:,} tensors, {key[2]}, {unit}"


def table(page, now):
    """Lines: on the page, today, ratio, scaled. Above 1 is worse."""
    both = [key for key in page if key in now]
    speeds = sorted(now[key] / page[key] for key in both
                    if key[0] == "RE2::Set")
    machine = speeds[len(speeds) // 2] if speeds else 1.0
    lines = [f"Against {PAGE.name}: bare RE2::Set takes {machine:.2f}x of the "
             "time there",
             f"  {'':<40} {'page':>8} {'today':>8} {'ratio':>7} {'scaled':>7}"]
    for key in both:
        if key[0] == "RE2::Set":
            continue
        ratio = now[key] / page[key]
        if key == "reading":
            ratio = 1 / ratio
        scaled = ratio if key[0] == "megabytes" else ratio / machine
        lines.append(f"  {label(key):<40} {page[key]:>8.6g} {now[key]:>8.6g} "
                     f"{ratio:>6.2f}x {scaled:>6.2f}x"
                     + ("   slower than written" if scaled > 1.5 else ""))
    if len(lines) == 2:
        lines.append("  nothing to compare: has the page, or the output, "
                     "another form?")
    return lines


if __name__ == "__main__":
    read = []
    for row in sys.stdin:
        print(row, end="", flush=True)
        read.append(row)
    print()
    print("\n".join(table(from_page(PAGE.read_text("utf-8")),
                          from_output("".join(read)))))
