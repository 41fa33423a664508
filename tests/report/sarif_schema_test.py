#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the SARIF of every command that finds something against a schema.

The schema is tests/report/sarif.schema.json: what shardplan writes of the
standard, no key more. Of each run the same is asked for as JSON, and what is
told must be the same: no finding is lost on the way, none has another severity,
and each has its place.

    tests/report/sarif_schema_test.py PROGRAM [--keep DIR]

--keep writes the logs there, for tests/data/judge_sarif.py.
"""
import argparse
import collections
import dataclasses
import hashlib
import json
import pathlib
import re
import sys

import schema_test

SCHEMA = pathlib.Path(__file__).with_name("sarif.schema.json")
JUDGED = pathlib.Path(__file__).parent.parent / "data/sarif_judged.json"
COMMANDS = ("check", "gate", "resolve", "analyze", "simulate", "sweep", "diff")
LEAST_LOGS = 150


def as_sarif(words):
    """The same command line with SARIF in place of JSON."""
    made, skip = [], False
    for word in words:
        if not skip and word in ("--json", "--format", "--format=json"):
            made += ["--format", "sarif"]
        elif not skip:
            made.append(word)
        skip = word == "--format" and not skip
    return made


def with_sarif(compare, cases, every):
    """Runs in JSON that may find something, and the same in SARIF.

    Of those that end well, which have few findings, one of `every`.
    """
    number = 0
    for name, steps in cases:
        made = []
        for step in steps:
            is_asked = (isinstance(step, compare.Run)
                        and step.words[0] in COMMANDS
                        and not schema_test.writes_files(step.words)
                        and schema_test.is_json(compare, step.words)
                        and set(compare.flag_values(step.words, "--format"))
                        <= {"json"}
                        # Its message names the format.
                        and "--diff" not in step.words)
            if is_asked:
                number += 0 in step.exits
                if 0 in step.exits and number % every:
                    continue
                made += [step, dataclasses.replace(
                    step, words=as_sarif(step.words))]
            elif (isinstance(step, compare.File)
                  or schema_test.writes_files(step.words)):
                made.append(step)
        yield name, made


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unescaped(text):
    """The text of a message as people read it."""
    return text.replace("{{", "{").replace("}}", "}").replace("\\](", "](")


def as_shown(diagnostic):
    lines = [diagnostic["message"]]
    lines += [f"= {fact}" for fact in diagnostic["facts"]]
    lines += [f"help: {text}" for text in diagnostic["help"]]
    return "\n".join(lines)


def finding_key(diagnostic):
    return diagnostic["code"], diagnostic["severity"], as_shown(diagnostic)


def findings_in(log):
    run = log["runs"][0]
    for result in run["results"]:
        yield (result["ruleId"], result["level"],
               unescaped(result["message"]["text"]))
    for note in run["invocations"][0].get("toolExecutionNotifications", []):
        yield (note["descriptor"]["id"], note["level"],
               unescaped(note["message"]["text"]))


def mistakes_of_meaning(log, report):
    """What of the report in JSON the log lacks, or has beyond it."""
    run = log["runs"][0]
    driver = run["tool"]["driver"]
    for result in run["results"]:
        if driver["rules"][result["ruleIndex"]]["id"] != result["ruleId"]:
            yield "`ruleIndex` is that of another rule"
    prints = [r["partialFingerprints"]["shardplanFinding/v1"]
              for r in run["results"]]
    if len(set(prints)) != len(prints):
        yield "two results have one fingerprint"
    meant = collections.Counter(map(finding_key, report["diagnostics"]))
    found = collections.Counter(findings_in(log))
    for lost in meant - found:
        yield f"a finding is lost: {lost}"
    for more in found - meant:
        # Changes that fail of nothing are notes beside the findings.
        if report["command"] not in ("gate", "diff") or more[1] != "note":
            yield f"a result is not a finding: {more}"
    edits = sum(1 for d in report["diagnostics"] for fix in d["fixes"]
                if fix["edits"])
    fixes = sum(len(result.get("fixes", [])) for result in run["results"])
    if edits != fixes:
        yield f"{fixes} fixes, where JSON has {edits} with edits"


def broken_logs(log):
    """Copies with a key more, a key less, or a value of another type."""
    for path, value in schema_test.objects_in(log):
        yield path, schema_test.with_change(log, path,
                                            lambda o: o.update(unknown=1))
        for key in value:
            yield path + (key,), schema_test.with_change(
                log, path, lambda o: o.update({key: {"wrong": []}}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    compare = schema_test.load_compare()
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    strict = schema_test.closed(schema)
    checker = schema_test.Checker(strict)
    cases = list(with_sarif(compare, schema_test.chosen_cases(compare),
                            1 if options.keep else 4))
    wrong, logs, before = [], [], None
    for run, result in schema_test.run_all(compare, program, cases):
        text = result.streams["stdout"]
        if "sarif" not in compare.flag_values(run.words, "--format"):
            before = text
            continue
        mistakes = []
        if re.search(rb"[^\n -~]", text):
            mistakes.append("holds what is not a printable ASCII")
        if result.exit not in run.exits:
            mistakes.append(f"exits with {result.exit}, not {run.exits}")
        try:
            log = json.loads(text)
        except ValueError as error:
            mistakes.append(f"is no JSON: {error}")
        else:
            mistakes += checker.errors(log)
            if not mistakes:
                mistakes += mistakes_of_meaning(log, json.loads(before))
            logs.append(log)
        for mistake in mistakes[:5]:
            wrong.append(f"{run.where}: $ {compare.shown(run)}\n  {mistake}")
    recorded = json.loads(JUDGED.read_text(encoding="utf-8"))
    if recorded["schema"] != digest(SCHEMA):
        wrong.append("the schema is not the one that tests/data/judge_sarif.py "
                     "has held against the standard's: run it again")
    if len(logs) < LEAST_LOGS:
        wrong.append(f"{len(logs)} logs; {LEAST_LOGS} are asked for")
    wrong += [f"no log shows {path}" for path in checker.unused()]
    broken = schema_test.Checker(strict)
    count = 0
    for log in sorted(logs, key=lambda log: len(json.dumps(log)))[-3:]:
        for path, changed in broken_logs(schema_test.pruned(log)):
            count += 1
            if broken.accepts(changed):
                wrong.append(f"{'/'.join(map(str, path))} may be anything")
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        for number, log in enumerate(logs):
            path = options.keep / f"{number:03}.sarif"
            path.write_text(json.dumps(log, indent=1), encoding="utf-8")
    for text in wrong:
        print(text)
    print(f"{len(logs)} logs, {count} broken ones, {len(wrong)} mistakes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
