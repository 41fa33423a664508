#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what shardplan writes as others read it, and holds it against JSON.

CSV by Python's module, Markdown by GitHub's own reader (cmark-gfm), HTML as a
strict reader would that forgives nothing left open, annotations as GitHub's
runner takes a line apart, `concise` as editors do. (JSON and SARIF
have schemas: schema_test.py and sarif_schema_test.py.)

    tests/report/readers_test.py PROGRAM
"""
import argparse
import base64
import collections
import csv
import dataclasses
import html.parser
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree
import zlib

import sarif_schema_test
import schema_test

FORMATS = ("csv", "markdown", "html", "github", "concise", "junit")
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


class Page(html.parser.HTMLParser):
    """What is open, and what a page has of what its report has."""

    VOID = ("meta", "br", "link", "img", "input")

    def __init__(self):
        super().__init__()
        self.open, self.wrong = [], []
        self.findings, self.figures, self.drawings = 0, 0, 0
        self.scripts, self.data = [], ""

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.figures += tag == "figure"
        self.drawings += tag == "svg"
        self.findings += (given.get("class") or "").startswith("finding ")
        if tag in ("script", "style", "img", "iframe", "link"):
            self.scripts.append((tag, given.get("type"), given.get("src")))
        if any(name.startswith("on") for name in given):
            self.wrong.append(f"<{tag}> has a handler: {given}")
        if tag not in self.VOID:
            self.open.append((tag, given.get("id")))

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.wrong.append(f"</{tag}> ends {self.open[-1:]}")
            return
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == ("script", "data"):
            self.data += data


def read_html(text, report):
    page = Page()
    page.feed(text)
    page.close()
    yield from page.wrong
    if page.open:
        yield f"{page.open} are left open"
    allowed = {("style", None, None), ("script", None, None),
               ("script", "application/octet-stream", None)}
    if set(page.scripts) - allowed or len(page.scripts) > 3:
        yield f"has {page.scripts}"
    # Remarks are notes of the page.
    findings = [each for each in report["diagnostics"]
                if (each["code"], each["severity"]) != ("SP019", "note")]
    if page.findings != min(len(findings), 500):
        yield f"{page.findings} of {len(findings)} findings"
    figures = len(report.get("figures", []))
    if (page.figures, page.drawings) != (figures, 2 * figures):
        yield f"{page.figures} figures, {page.drawings} drawings of {figures}"
    rows = report["tables"].get("placements")
    if rows is None or not page.data:
        return
    data = json.loads(zlib.decompress(base64.b64decode(page.data)))
    names = data["names"].split("\n")[:-1]
    if len(names) != len(rows):
        yield f"{len(names)} of {len(rows)} parameters"
    for name, rest, row in zip(names, data["rest"], rows):
        of = data["rests"][rest]
        if (of["spec"], of["shape"]) != (row["spec"], row["shape"]):
            yield f"{name} is {of}, not {row}"
            return


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


READERS = {"csv": read_csv, "markdown": read_markdown, "html": read_html,
           "github": read_github, "concise": read_concise,
           "junit": read_junit}


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
