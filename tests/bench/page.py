# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks say today, beside docs/design/performance.md, and into it.

    scripts/bench | python3 tests/bench/page.py [--write] [--program PROGRAM]

Reads blocks, each behind a line `### name`, as the benchmarks print them, and
passes them on. Then a table: machines differ, and the time that bare RE2::Set
takes, which is not our code, says how much; `scaled` is the ratio without that.
Peak memory is not scaled. `--write` puts each block between `<!-- name -->` and
`<!-- /name -->` on the page, under a line with the day and the machine; no
number there is typed by hand. A block without a place on the page is an error.
"""

import argparse
import datetime
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import instructions  # noqa: E402

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "design" /
        "performance.md")


def number(text):
    return float(re.search(r"[\d,.]+", text).group().replace(",", ""))


def rows(page):
    """Cells of all rows of all tables."""
    for line in page.splitlines():
        if line.startswith("|") and not line.startswith("|-"):
            yield [cell.strip().replace("`", "")
                   for cell in line.strip("|").split("|")]


def measured(text):
    """{(what, ..): value} of a page or an output: seconds, megabytes,
    nanoseconds a name."""
    known = {}
    for cells in rows(text):
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


def blocks_of(text):
    """{name: lines}, of an output."""
    blocks, name = {}, None
    for line in text.splitlines():
        if line.startswith("### "):
            name = line[4:].strip()
            blocks[name] = []
        elif name is not None:
            blocks[name].append(line)
    return {name: "\n".join(lines).strip("\n")
            for name, lines in blocks.items()}


def machine(program):
    """The day and what was measured on: "2026-11-25; g++ 12.2.0, .."."""
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    compiler = instructions.key_of(program).split(", glibc")[0]
    return (f"{datetime.date.today().isoformat()}; {compiler}; {model}, "
            f"{os.cpu_count()} processors, load average "
            f"{os.getloadavg()[2]:.0f}.")


def written(page, blocks, of_machine):
    """The page with the blocks; ValueError for one that has no place."""
    for name, text in blocks.items():
        place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?"
                           rf"(<!-- /{re.escape(name)} -->)", re.S)
        if len(place.findall(page)) != 1:
            raise ValueError(f"{PAGE.name} has no place for `{name}`")
        page = place.sub(
            lambda found, text=text: f"{found.group(1)}{of_machine}\n\n{text}\n"
            f"{found.group(2)}", page)
    return page


def main(arguments):
    parser = argparse.ArgumentParser(
        description="What the benchmarks say, beside the page and into it.")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--program", default="build/release/shardplan")
    asked = parser.parse_args(arguments)
    read = []
    for row in sys.stdin:
        print(row, end="", flush=True)
        read.append(row)
    output = "".join(read)
    page = PAGE.read_text("utf-8")
    print()
    print("\n".join(table(measured(page), measured(output))))
    if asked.write:
        PAGE.write_text(written(page, blocks_of(output),
                                machine(asked.program)), "utf-8")
        print(f"{PAGE.name} has these numbers now")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
