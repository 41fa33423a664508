#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds SARIF logs against the standard's schema and Microsoft's validator.

    npm pack @microsoft/sarif-multitool-linux    # 5.7.0
    tar xzf microsoft-sarif-multitool-linux-*.tgz
    tests/data/judge_sarif.py build/release/shardplan package/

Both are in that package, which is no part of this project. The logs are those
of tests/report/sarif_schema_test.py. What came of it is recorded in
tests/data/sarif_judged.json, with the digest of our own schema, so that the
test asks for this script again when that changes.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/report"))
import sarif_schema_test  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("package", type=pathlib.Path)
    options = parser.parse_args()
    tool = options.package / "Sarif.Multitool"
    tool.chmod(0o755)
    schema = json.loads((options.package / "sarif-2.1.0.json").read_bytes())
    validator = jsonschema.validators.validator_for(schema)(schema)
    errors, remarks = 0, collections.Counter()
    with tempfile.TemporaryDirectory(prefix="judge-sarif-") as folder:
        subprocess.run([sys.executable, sarif_schema_test.__file__,
                        options.program, "--keep", folder], check=False)
        logs = sorted(pathlib.Path(folder).glob("*.sarif"))
        for log in logs:
            for error in validator.iter_errors(json.loads(log.read_bytes())):
                errors += 1
                print(f"{log.name}: {error.message[:200]}")
        done = subprocess.run(
            [tool, "validate", *logs, "--rule-kind", "Sarif;Ghas", "--level",
             "Error;Warning;Note", "--output", f"{folder}/found.json", "--log",
             "ForceOverwrite"],
            env={**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"},
            capture_output=True, text=True, check=False)
        found = json.loads(pathlib.Path(folder, "found.json").read_bytes())
    for result in found["runs"][0].get("results", []):
        level = result.get("level", "warning")
        remarks[f"{level} {result['ruleId'].split('/')[0]}"] += 1
    errors += sum(n for name, n in remarks.items() if name[:5] == "error")
    package = json.loads((options.package / "package.json").read_bytes())
    sarif_schema_test.JUDGED.write_text(json.dumps({
        "validator": f"{package['name']} {package['version']}",
        "logs": len(logs), "errors": errors,
        "remarks": dict(sorted(remarks.items())),
        "schema": sarif_schema_test.digest(sarif_schema_test.SCHEMA)},
        indent=2) + "\n", encoding="utf-8")
    print(f"{len(logs)} logs, {errors} errors; {done.stdout.splitlines()[-1]}")
    return 1 if errors or not logs else 0


if __name__ == "__main__":
    sys.exit(main())
