#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds docs/formats/report.schema.json against the reports of every command.

    python3 tests/report/schema_test.py SHARDPLAN [--list]

The command lines are those of scripts/compare: all of tests/cases and
tests/regressions, and of the others the first with the same command, flags and
exit code. Exit 0: every report obeys the schema with keys that it does not
name forbidden, every command was run, nothing in the schema went unused, and
reports that are broken on purpose are refused. --list shows what is run.
"""

import argparse
import collections
import concurrent.futures
import copy
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import queue
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    # Debian's package is for Debian's Python, which may not be the first.
    if os.environ.get("SHARDPLAN_PYTHON") is None:
        os.environ["SHARDPLAN_PYTHON"] = "/usr/bin/python3"
        if os.access("/usr/bin/python3", os.X_OK):
            os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    sys.exit("jsonschema for Python is missing: apt-get install "
             "python3-jsonschema (scripts/setup does so)")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMA = ROOT / "docs/formats/report.schema.json"
NAME = "shardplan.report/1"

# Their reports have many megabytes of rows as other ones have.
LARGE = ("deepseek", "70b", "30b-a3b", "docs/validation")
# Of a longer table only rows of kinds that it had none of are checked.
SHORT_TABLE = 40
LEAST_REPORTS = 300

# Columns of which the schema lists the values.
WORDS = {"kind", "severity", "category", "measure", "unit", "cause", "change",
         "witness_from", "side"}

# What section 4 of the contract promises; the schema must require it.
PLAN_KEYS = (
    "tensors sharded_tensors total_parameters sharded_parameters total_bytes "
    "devices mesh memory_per_device balance_score efficiency "
    "replication_factor padding_bytes replicated_fraction corrections errors "
    "warnings fingerprint")
PROMISED = {
    "resolve_summary": PLAN_KEYS,
    "check_summary": PLAN_KEYS,
    "analyze_summary": PLAN_KEYS,
    "memory_range": "max min mean",
    "inspect_summary": "name format tensors total_parameters total_bytes "
                       "buffers",
    "simulate_summary": "devices verdict structural_error error_amplification "
                        "bound_ratio decision_flips flops bytes_moved "
                        "bytes_priced implicit_reshards",
    "gate_summary": "targets changed failed base head",
    "check_tables": "placements corrections rules",
    "resolve_tables": "placements corrections rules",
    "analyze_tables": "placements corrections rules",
    "simulate_tables": "collectives activations",
    "gate_tables": "targets gate_changes",
    "check_targets_tables": "targets",
    "placement": "parameter dtype shape rule pattern requested spec "
                 "local_shape bytes_per_device shards replicas",
    "correction": "parameter dim code dropped reason",
    "rule": "rule pattern spec file line found won shadowed_by",
    "imbalance": "measure value",
    "collective": "kind axis count algorithm bytes_per_device at",
    "activation": "value shape spec from",
    "gated_target": "target changed errors warnings failed",
    "checked_target": "target errors warnings failed",
    "gate_change": "target kind what before after file line fails",
    "rule_change": "target kind what before after file line fails",
    "diagnostic": "code name severity message labels facts help parameters",
    "label": "file line column end_column text",
}

# What no run shows, and why.
NOT_FINITE = "only a model whose values overflow has no finite number here"
UNUSED = {
    f"#/definitions/{name}: null": NOT_FINITE for name in (
        "expected/properties/exact", "expected/properties/sharded",
        "expected/properties/unsharded",
        "layer_error/properties/amplification",
        "layer_error/properties/sharded", "layer_error/properties/unsharded",
        "precision/properties/amplification",
        "precision/properties/growth_per_layer",
        "precision/properties/sharded", "precision/properties/unsharded",
        "figure/properties/series/items/properties/points/items",
        "simulate_summary/properties/structural_error")
}


def load_compare():
    path = str(ROOT / "scripts/compare")
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("compare", path)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader("compare", loader))
    sys.modules["compare"] = module  # dataclasses look there
    loader.exec_module(module)
    return module


# The schema.

def parts_of(schema, path="#"):
    """(path, part) of every schema within a schema."""
    yield path, schema
    for key in ("properties", "definitions"):
        for name, part in schema.get(key, {}).items():
            yield from parts_of(part, f"{path}/{key}/{name}")
    for key in ("items", "if", "then", "else", "not", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from parts_of(schema[key], f"{path}/{key}")
    for key in ("allOf", "anyOf"):
        for number, part in enumerate(schema.get(key, [])):
            yield from parts_of(part, f"{path}/{key}/{number}")


KNOWN_WORDS = {
    "$schema", "$id", "$ref", "title", "description", "type", "required",
    "properties", "definitions", "items", "if", "then", "else", "not",
    "additionalProperties", "allOf", "anyOf", "enum", "const", "pattern",
    "minimum", "maximum", "minItems", "minProperties", "dependencies"}


def is_object_with_keys(part):
    """Such a part names all keys that an object has."""
    kinds = part.get("type", [])
    return "object" in ([kinds] if isinstance(kinds, str) else kinds) and \
        "properties" in part


def closed(schema):
    """The same schema, which takes no keys but those it names."""
    strict = copy.deepcopy(schema)
    for _, part in parts_of(strict):
        if is_object_with_keys(part):
            part["additionalProperties"] = False
    return strict


def mistakes_in(schema):
    """What the metaschema cannot know."""
    jsonschema.Draft7Validator.check_schema(schema)
    definitions = schema["definitions"]
    used = collections.Counter()
    for path, part in parts_of(schema):
        for word in set(part) - KNOWN_WORDS:
            yield f"{path}: `{word}` is not a word of a schema that we use"
        if "$ref" in part:
            name = part["$ref"].removeprefix("#/definitions/")
            used[name] += 1
            if name not in definitions:
                yield f"{path}: there is no definition `{name}`"
            if len(part) > 1:
                yield f"{path}: what stands beside `$ref` is not looked at"
        if is_object_with_keys(part):
            for key in set(part.get("required", [])) - set(part["properties"]):
                yield f"{path}: requires `{key}`, which it does not describe"
    for name in definitions:
        if not used[name]:
            yield f"definition `{name}` is not used"
    for name, keys in PROMISED.items():
        part = definitions[name]
        required = part.get("required", part.get("then", {}).get("required"))
        for key in set(keys.split()) - set(required):
            yield f"definition `{name}` does not require `{key}`"


class Checker:
    """A validator that also notes which parts of its schema were used."""

    def __init__(self, schema):
        self.schema = schema
        self.used = set()  # (id of a part, key, value or type)
        base = jsonschema.Draft7Validator

        def properties(validator, keys, instance, part):
            if isinstance(instance, dict) and is_object_with_keys(part):
                self.used.update((id(part), key) for key in keys
                                 if key in instance)
            yield from base.VALIDATORS["properties"](validator, keys,
                                                     instance, part)

        def enum(validator, values, instance, part):
            if isinstance(instance, (str, type(None))):
                self.used.add((id(part), "enum", instance))
            yield from base.VALIDATORS["enum"](validator, values, instance,
                                               part)

        def types(validator, names, instance, part):
            if isinstance(names, list):
                self.used.update((id(part), "type", name) for name in names
                                 if validator.is_type(instance, name))
            yield from base.VALIDATORS["type"](validator, names, instance,
                                               part)

        def items(validator, part, instance, whole):
            if isinstance(instance, list) and instance:
                self.used.add((id(whole), "items"))
            yield from base.VALIDATORS["items"](validator, part, instance,
                                                whole)

        # `1.0` is not an integer of ours: integers are written in full.
        checker = base.TYPE_CHECKER.redefine(
            "integer", lambda _, value: type(value) is int)
        self.validator = jsonschema.validators.extend(
            base, {"properties": properties, "enum": enum, "type": types,
                   "items": items}, type_checker=checker)(schema)

    def errors(self, report):
        return [f"{'/'.join(map(str, error.absolute_path)) or '(whole)'}: "
                f"{error.message[:200]}"
                for error in self.validator.iter_errors(report)]

    def accepts(self, report):
        return self.validator.is_valid(report)

    def unused(self):
        for path, part in parts_of(self.schema):
            if is_object_with_keys(part):
                for key in part["properties"]:
                    if (id(part), key) not in self.used:
                        yield f"{path}/properties/{key}"
            if "/if" in path or "/not" in path:
                continue
            for value in part.get("enum", []):
                if (id(part), "enum", value) not in self.used:
                    yield f"{path}: {json.dumps(value)}"
            if isinstance(part.get("type"), list):
                for name in part["type"]:
                    if (id(part), "type", name) not in self.used:
                        yield f"{path}: {name}"
            if "items" in part and (id(part), "items") not in self.used:
                yield f"{path}: items"


# The runs.

def writes_files(words):
    return any(word.split("=")[0] in ("-o", "--output", "--fix",
                                      "--write-baseline", "--write-rules",
                                      "--write-config") for word in words)


def is_json(compare, words):
    return ("--json" in words or
            "json" in compare.flag_values(words, "--format"))


def kind_of(run):
    """Runs of one kind have reports of one shape, as far as can be told."""
    words = run.words
    flags = {word.split("=")[0] for word in words if word.startswith("-")}
    topics = words[1:3] if words[0] == "list" else []
    return words[0], *topics, len(words), frozenset(flags), run.exits


def chosen_cases(compare):
    """(name, steps), with the runs that write what others read."""
    seen, chosen = set(), []
    cases = compare.all_cases()
    whole = ("tests/cases/", "tests/regressions/")
    for name, steps in sorted(cases, key=lambda c: not c[0].startswith(whole)):
        kept, any_json = [], False
        for step in steps:
            if isinstance(step, compare.File):
                kept.append(step)
                continue
            wanted = step.words and is_json(compare, step.words)
            if wanted and not name.startswith(whole):
                wanted = kind_of(step) not in seen
            text = " ".join([step.where, *step.words])
            wanted = wanted and not any(part in text for part in LARGE)
            if wanted:
                seen.add(kind_of(step))
                any_json = True
            if wanted or writes_files(step.words):
                kept.append(step)
        if any_json:
            chosen.append((name, kept))
    return chosen


def reports_of(result):
    """Texts of reports: what was printed and what was written."""
    texts = [result.streams["stdout"]]
    texts += [content for name, content in result.streams.items()
              if name.startswith("files/") and content is not None]
    return [json.loads(text) for text in texts
            if text.startswith(b"{") and f'"{NAME}"'.encode() in text[:100]]


def row_kind(value, key=None):
    """Equal for rows that a schema can hardly tell apart."""
    if isinstance(value, dict):
        return tuple((key, row_kind(part, key)) for key, part in value.items())
    if isinstance(value, list):
        return frozenset(row_kind(part) for part in value)
    if key in WORDS and isinstance(value, str):
        return value
    if type(value) in (int, float):
        return type(value), value < 0
    return type(value)


def thinned(report):
    tables = {}
    for name, rows in report["tables"].items():
        if len(rows) > SHORT_TABLE:
            kinds = {}
            for row in rows:
                kinds.setdefault(row_kind(row), row)
            rows = rows[:SHORT_TABLE // 4] + list(kinds.values())
        tables[name] = rows
    return {**report, "tables": tables}


def mistakes_of_exit(run, code, report):
    """What exit codes promise, which the report does not tell."""
    if code not in run.exits:
        yield f"exits with {code}, not {run.exits}"
    if code not in (0, 1, 2):
        return
    if code == 2:
        if not any(d["severity"] == "error" for d in report["diagnostics"]):
            yield "exit 2 without an error"
        return
    if not report["tables"] or not (report["summary"] or
                                    report["command"] == "list"):
        yield f"exit {code} without a summary or tables"


# Broken on purpose.

def pruned(value):
    """Of lists of objects the first and the last."""
    if isinstance(value, dict):
        return {key: pruned(part) for key, part in value.items()}
    if isinstance(value, list):
        if len(value) > 2 and isinstance(value[0], dict):
            value = [value[0], value[-1]]
        return [pruned(part) for part in value]
    return value


def variants(reports):
    """One report of each command and set of tables, with many findings."""
    found = {}
    for report in reports:
        key = report["command"], frozenset(
            name for name, rows in report["tables"].items() if rows)
        best = found.get(key)
        if best is None or len(report["diagnostics"]) > len(
                best["diagnostics"]):
            found[key] = report
    return [pruned(report) for report in found.values()]


def objects_in(value, path=()):
    """(path, object) of each object within."""
    if isinstance(value, dict):
        yield path, value
        for key, part in value.items():
            yield from objects_in(part, path + (key,))
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from objects_in(part, path + (at,))


def with_change(report, path, change):
    """A copy of the report; only what is on the path is copied."""
    result = copy.copy(report)
    at = result
    for step in path:
        at[step] = copy.copy(at[step])
        at = at[step]
    change(at)
    return result


def is_free(path):
    """Objects whose keys are axes, or names of views."""
    return bool(path) and (path[-1] in ("mesh", "mesh_before", "mesh_after",
                                        "slices", "views")
                           or path[-2:-1] == ("views",))


def mutation_mistakes(strict, published, report):
    """What of the broken copies of a report is taken, or wrongly refused."""
    count = 0
    name = report["command"]
    for path, value in objects_in(report):
        # Objects of one place and form are broken once for each command.
        form = (name, tuple(step for step in path if isinstance(step, str)),
                row_kind(value))
        if form in BROKEN_FORMS:
            continue
        BROKEN_FORMS.add(form)
        where = f"{name}: {'/'.join(map(str, path)) or '(whole)'}"
        if not is_free(path):
            count += 1
            more = with_change(report, path,
                               lambda o: o.update({"unknown_key": 1}))
            if strict.accepts(more):
                yield f"{where}: an unknown key is taken"
            # What could not be made may be empty, but not half there.
            if value and not published.accepts(more):
                yield f"{where}: users would be refused an unknown key"
        for key, held in value.items():
            wrongs = [{"wrong": []}]
            if type(held) is int:
                wrongs += [held + 0.5, float(held), True, str(held)]
            for wrong in wrongs:
                if isinstance(wrong, float) and (
                        key in RATIOS or path[:2] == ("tables", "step_time") or
                        "uses" in path):
                    continue
                if isinstance(wrong, str) and key in FREE_VALUES:
                    continue
                count += 1
                if strict.accepts(with_change(
                        report, path, lambda o: o.update({key: wrong}))):
                    yield f"{where}: `{key}` may be {wrong!r}"
    MUTATIONS[name] += count


# Numbers that need not be whole, of which a report happened to hold a whole one.
RATIOS = {
    "mean", "balance_score", "efficiency", "replication_factor",
    "replicated_fraction", "value", "busiest", "structural_error",
    "error_amplification", "bound_ratio", "unsharded", "sharded",
    "amplification", "growth_per_layer", "gap", "lower_bound"}
FREE_VALUES = {"value", "before", "after"}
BROKEN_FORMS = set()
MUTATIONS = collections.Counter()


def missing_mistakes(strict, report):
    """The keys that may be absent are those of a short list."""
    for path, value in objects_in(report):
        if is_free(path) or path == ("tables",):
            continue
        for key in value:
            if key in OPTIONAL:
                continue
            MUTATIONS[report["command"]] += 1
            if strict.accepts(with_change(report, path,
                                          lambda o: o.pop(key))):
                yield (f"{report['command']}: {'/'.join(map(str, path))}: "
                       f"`{key}` may be absent")


OPTIONAL = {
    "slices", "topology", "parity", "first_non_finite", "memory_bracket",
    "host_bracket", "memory_reserved", "dequantised_weights", "fp8_weights",
    "group", "optimizer", "time_per_output_token", "figures", "uses"}


# The whole.

def run_all(compare, program, cases):
    """(run, result) of every chosen run."""
    folders = queue.SimpleQueue()
    jobs = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="shardplan-schema-") as temporary:
        for number in range(jobs):
            path = pathlib.Path(temporary).resolve() / str(number)
            path.mkdir()
            folders.put(compare.Folder(path))

        def one(steps):
            folder = folders.get()
            try:
                return compare.run_case(program, steps, folder)
            finally:
                folders.put(folder)

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            results = pool.map(one, (steps for _, steps in cases))
            for (_, steps), done in zip(cases, results):
                runs = [s for s in steps if isinstance(s, compare.Run)]
                yield from zip(runs, done)


def judged_runs(compare, program, cases, checker, reports):
    """Mistakes of the runs, one text each; appends what was reported."""
    for run, result in run_all(compare, program, cases):
        if not is_json(compare, run.words):
            continue
        wrong = []
        found = reports_of(result)
        if not found:
            said = result.streams["stderr"] or result.streams["stdout"]
            wrong.append(f"exits with {result.exit} and writes no report: "
                         + said.decode("utf-8", "replace")[:300])
        for report in found:
            wrong += checker.errors(thinned(report))
            wrong += mistakes_of_exit(run, result.exit, report)
            reports.append(report)
        for text in wrong[:5]:
            yield f"{run.where}: $ {compare.shown(run)}\n  {text}"


def commands_of(compare, program):
    found = compare.Tally.names(
        argparse.Namespace(ask=lambda words, folder: compare.Tally.ask(
            argparse.Namespace(program=program), words, folder)),
        "commands", "commands")
    return set(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--list", action="store_true",
                        help="show the command lines and run nothing")
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    compare = load_compare()
    cases = chosen_cases(compare)
    if options.list:
        for _, steps in cases:
            for run in steps:
                if isinstance(run, compare.Run):
                    print(f"{run.where}\t{compare.shown(run)}")
        return 0

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    wrong = list(mistakes_in(schema))
    strict = Checker(closed(schema))
    published = Checker(schema)
    reports = []
    wrong += judged_runs(compare, program, cases, strict, reports)
    if len(reports) < LEAST_REPORTS:
        wrong.append(f"{len(reports)} reports; {LEAST_REPORTS} are asked for")
    for command in sorted(commands_of(compare, program)
                          - {report["command"] for report in reports}):
        wrong.append(f"no run of `{command}` writes a report")
    unused = set(strict.unused())
    wrong += [f"no report shows {path}" for path in sorted(unused - set(UNUSED))]
    wrong += [f"a report shows {path} after all: it needs no excuse"
              for path in sorted(set(UNUSED) - unused)]
    broken = Checker(closed(schema))  # what is broken uses nothing
    for report in variants(reports):
        wrong += mutation_mistakes(broken, published, report)
        wrong += missing_mistakes(broken, report)
    for text in wrong:
        print(text)
    print(f"{len(reports)} reports, {sum(MUTATIONS.values())} broken ones, "
          f"{len(wrong)} mistakes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
