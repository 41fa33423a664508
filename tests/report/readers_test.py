#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what shardplan writes as others read it, and holds it against JSON.

CSV by Python's module, Markdown by GitHub's own reader (cmark-gfm), annotations
as GitHub's runner takes a line apart, `concise` as editors do. (JSON and SARIF
have schemas: schema_test.py and sarif_schema_test.py.)

    tests/report/readers_test.py PROGRAM
"""
import argparse
import collections
import csv
import dataclasses
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import sarif_schema_test
import schema_test

FORMATS = ("csv", "markdown", "github", "concise", "junit")
LEAST = 100  # reports of each format
EVERY = 6    # of the runs in JSON


def with_format(words, name):
    return [name if word == "sarif" else word
            for word in sarif_schema_test.as_sarif(words)]


def with_formats(compare, cases, formats):
    """Behind each of some runs in JSON the same run in every other format.

    `formats` gets the format of each, by its id.
    """
    number = 0
    for name, steps in cases:
        made = []
        for step in steps:
            if (not isinstance(step, compare.Run)
                    or schema_test.writes_files(step.words)):
                made.append(step)
                continue
            if (2 in step.exits or not schema_test.is_json(compare, step.words)
                    or "--diff" in step.words
                    or any(word.startswith("--fix") for word in step.words)):
                continue
            number += 1
            if number % EVERY:
                continue
            made.append(step)
            for other in FORMATS:
                made.append(dataclasses.replace(
                    step, words=with_format(step.words, other)))
                formats[id(made[-1])] = other
        yield name, made


def finding_counts(report):
    return collections.Counter(
        map(sarif_schema_test.finding_key, report["diagnostics"]))


# Each reader yields what is wrong with a text, beside the report in JSON.

def read_concise(text, report):
    found = collections.Counter()
    for line in text.splitlines():
        parts = re.fullmatch(
            r"(?:.+:\d+:\d+|.*?): (error|warning|note)\[(SP\d{3})\] (.*)", line)
        if parts is None:
            yield f"no finding: {line}"
            continue
        found[parts[2], parts[1], parts[3]] += 1
    meant = collections.Counter(
        (d["code"], d["severity"], d["message"])
        for d in report["diagnostics"])
    if found != meant:
        yield f"differs: {list((meant - found) + (found - meant))[:2]}"


def unescaped(text):
    for code, char in (("%0A", "\n"), ("%0D", "\r"), ("%3A", ":"),
                       ("%2C", ","), ("%25", "%")):
        text = text.replace(code, char)
    return text


def read_github(text, report):
    levels = {"error": "error", "warning": "warning", "notice": "note"}
    found, places = collections.Counter(), collections.Counter()
    for line in text.splitlines():
        parts = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line)
        if parts is None:
            yield f"no command: {line}"
            continue
        keys = dict(part.split("=", 1) for part in parts[2].split(","))
        code = unescaped(keys["title"]).split()[0]
        found[code, levels[parts[1]], unescaped(parts[3])] += 1
        if "file" in keys:
            places[unescaped(keys["file"]), int(keys["line"]),
                   int(keys["col"])] += 1
    meant = finding_counts(report)
    # What a change does besides is a note of annotations alone.
    more = [key for key in found - meant
            if report["command"] not in ("gate", "diff") or key[1] != "note"]
    if meant - found or more:
        yield f"differs: {list(meant - found)[:2]} {more[:2]}"
    for diagnostic in report["diagnostics"]:
        label = next((x for x in diagnostic["labels"] if x["file"]), None)
        if label is None or re.match("[-<]", label["file"]):
            continue
        at = label["file"], label["line"], label["column"]
        if label["file"].isprintable() and at not in places:
            yield f"nothing is at {at}"


def csv_tables(text):
    """(header, rows) of each table."""
    tables, fresh = [], True
    for row in csv.reader(io.StringIO(text, newline=""), strict=True):
        if not row:
            fresh = True
        elif fresh:
            tables.append((row, []))
            fresh = False
        else:
            tables[-1][1].append(row)
    return tables


def is_same(field, value):
    if value is None:
        return field == ""
    if isinstance(value, bool):
        return field == str(value).lower()
    if isinstance(value, str):
        plain = (value.isprintable() and "##" not in value
                 and not re.match("[-=+@]", value))
        return field == value or not plain
    return json.loads(field) == value


def read_csv(text, report):
    tables = csv_tables(text)
    named = {key: rows for key, rows in report["tables"].items() if rows}
    for name, rows in named.items():
        keys = list(rows[0])
        # A table without keys of its own rows cannot be told from another.
        like = [body for header, body in tables
                if header == keys and len(body) == len(rows)]
        if not like:
            yield f"`{name}` is not there, with {len(rows)} rows"
        elif not any(all(is_same(field, row[key])
                         for line, row in zip(body, rows)
                         for key, field in zip(keys, line)) for body in like):
            yield f"`{name}` has other values"
    for header, body in tables:
        if any(len(row) != len(header) for row in body):
            yield f"rows are not as long as the header: {header}"


SPACE = "{http://commonmark.org/xml/1.0}"
RAW = re.compile(r"<details><summary>[^<>]*</summary>|</details>|</?code>|<!-- -->")


def words_of(node):
    return re.sub(r"[`\s]+", "", "".join(node.itertext()))


def read_markdown(text, report):
    made = subprocess.run(["cmark-gfm", "-e", "table", "-e", "autolink", "-t",
                           "xml"], input=text,
                          capture_output=True, text=True, check=True).stdout
    page = xml.etree.ElementTree.fromstring(made)
    for kind in ("html_block", "html_inline"):
        for node in page.iter(SPACE + kind):
            if not RAW.fullmatch((node.text or "").strip()):
                yield f"raw HTML: {node.text[:100]!r}"
    for kind in ("link", "image"):
        for node in page.iter(SPACE + kind):
            yield f"a {kind}: {node.get('destination')}"
    widths = [len(row) for table in page.iter(SPACE + "table")
              for row in table]
    if any(width == 0 for width in widths):
        yield "a table without columns"
    if "have no room here" in text:
        return
    items = [words_of(item) for outer in page.findall(SPACE + "list")
             for item in outer]
    # Notes are lines of their own.
    listed = [diagnostic for diagnostic in report["diagnostics"]
              if (diagnostic["code"], diagnostic["severity"])
              != ("SP019", "note")]
    lines = words_of(page)
    for diagnostic in report["diagnostics"]:
        message = re.sub(r"[`\s]+", "", diagnostic["message"])
        if diagnostic not in listed:
            if message not in lines:
                yield f"a note is lost: {diagnostic['message']}"
            continue
        start = diagnostic["severity"] + diagnostic["code"] + message
        if not any(item.startswith(start) for item in items):
            yield f"a finding is lost: {diagnostic['message']}"
    if len(items) != len(listed):
        yield f"{len(items)} items for {len(listed)} findings"


def read_junit(text, report):
    suites = xml.etree.ElementTree.fromstring(text)
    cases = list(suites.iter("testcase"))
    failures = sum(case.find("failure") is not None for case in cases)
    for counted in (suites, suites.find("testsuite")):
        if (int(counted.get("tests")), int(counted.get("failures"))) != (
                len(cases), failures):
            yield f"{counted.get('tests')} tests, {counted.get('failures')} fail"
    found = collections.Counter(
        (case.get("classname").split()[0], case.find("failure") is not None,
         "".join(child.text for child in case).rstrip("\n"))
        for case in cases if case.get("name") != "no findings")
    meant = collections.Counter()
    for (code, severity, message), count in finding_counts(report).items():
        meant[code, severity == "error", message] += count
    if found != meant:
        yield f"differs: {list(meant - found)[:2]} {list(found - meant)[:2]}"


READERS = {"csv": read_csv, "markdown": read_markdown, "github": read_github,
           "concise": read_concise, "junit": read_junit}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    options = parser.parse_args()
    if shutil.which("cmark-gfm") is None:
        sys.exit("cmark-gfm is missing: apt-get install cmark-gfm "
                 "(scripts/setup does so)")
    program = str(pathlib.Path(options.program).resolve())
    compare = schema_test.load_compare()
    formats = {}
    cases = list(with_formats(compare, schema_test.chosen_cases(compare),
                              formats))
    wrong, read, report = [], collections.Counter(), None
    shown = collections.Counter()  # findings that each format reports
    for run, result in schema_test.run_all(compare, program, cases):
        text = result.streams["stdout"].decode("utf-8")
        if schema_test.is_json(compare, run.words):
            report = json.loads(text) if text.startswith("{") else None
            continue
        name = formats.get(id(run))
        if name is None:
            continue
        if report is None:
            wrong.append(f"{run.where}: $ {compare.shown(run)}\n  no JSON")
            continue
        read[name] += 1
        shown[name] += len(report["diagnostics"])
        for mistake in list(READERS[name](text, report))[:3]:
            wrong.append(f"{run.where}: $ {compare.shown(run)}\n  {mistake}")
    wrong += [f"{read[name]} reports in {name}; {LEAST} are asked for"
              for name in FORMATS if read[name] < LEAST or not shown[name]]
    for text in wrong:
        print(text)
    print(", ".join(f"{read[name]} in {name}" for name in FORMATS) +
          f", {len(wrong)} mistakes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
