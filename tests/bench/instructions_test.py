# SPDX-License-Identifier: Apache-2.0
"""The guard of instruction counts notices: `resolve` was five times slower than
its page said, and nothing failed.

    python3 tests/bench/instructions_test.py [PROGRAM]

With a program (and valgrind) also a workload that does more is really counted.
"""

import contextlib
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import growth  # noqa: E402
import instructions  # noqa: E402
import page  # noqa: E402

PROGRAM = sys.argv.pop() if len(sys.argv) > 1 else None
KEY = "g++ 1.0, release, glibc 1.0, valgrind 1.0, x86-64-v3"


def compared(now, before=1000, key=KEY):
    return instructions.compare({"w": now}, {KEY: {"w": before}}, key)


class Comparing(unittest.TestCase):
    def test_more_than_the_slack_fails(self):
        lines, above = compared(1051)
        self.assertEqual(above, ["w"])
        self.assertIn("more than 5% above the record", lines[0])
        self.assertEqual(compared(1050)[1], [])

    def test_much_less_is_an_improvement_to_record(self):
        lines, above = compared(949)
        self.assertEqual(above, [])
        self.assertIn("better: record it with --update", lines[0])
        self.assertNotIn("record", compared(950)[0][0])

    def test_another_compiler_is_only_reported(self):
        lines, above = compared(9000, key="clang++ 2.0")
        self.assertEqual(above, [])
        self.assertIn("9.000x", lines[0])

    def test_a_workload_without_a_record_fails(self):
        lines, above = instructions.compare({"new": 1}, {KEY: {"w": 1}}, KEY)
        self.assertEqual(above, ["new"])
        self.assertIn("not on record", lines[0])
        self.assertEqual(
            instructions.compare({"new": 1}, {}, KEY)[1], [])


    def test_two_workloads_are_held_against_each_other(self):
        ratios = [("a", "b", 1.5), ("a", "not counted", 1.0)]
        lines, above = instructions.compare_pairs({"a": 30, "b": 20}, ratios)
        self.assertEqual((len(lines), above), (1, []))
        lines, above = instructions.compare_pairs({"a": 31, "b": 20}, ratios)
        self.assertEqual(above, ["a"])
        self.assertIn("more than 1.5", lines[0])

    def test_ratios_are_of_workloads(self):
        every = {w.name for w in instructions.workloads()}
        for first, second, _ in instructions.RATIOS:
            self.assertIn(first, every)
            self.assertIn(second, every)


class Workloads(unittest.TestCase):
    def test_inputs_are_the_same_each_time(self):
        for first, second in zip(instructions.workloads(),
                                 instructions.workloads()):
            self.assertEqual(first.name, second.name)
            self.assertEqual(first.command, second.command)
            self.assertEqual(first.files, second.files)

    def test_every_workload_is_on_record(self):
        names = [w.name for w in instructions.workloads()]
        self.assertEqual(len(set(names)), len(names))
        self.assertGreaterEqual(len(names), 10)
        record = json.loads(instructions.RECORD.read_text("utf-8"))
        for key, counts in record.items():
            self.assertEqual(list(counts), names, key)
            self.assertTrue(all(n > 0 for n in counts.values()), key)


OUTPUT = """### whole
| tensors | form | CPU time | peak memory | per tensor |
|---:|---|---:|---:|---:|
| 100,000 | text | {seconds} s | 24 MB | 240 bytes |
### matching
| 20 | 174 ns, 0.54x | 322 ns | 1,479 ns, 4.6x |
"""


class Page(unittest.TestCase):
    """Times beside those of docs/design/performance.md."""

    def test_the_page_is_read(self):
        known = page.measured(page.PAGE.read_text("utf-8"))
        self.assertEqual(len(known), 15)

    def test_what_is_slower_than_written_is_marked(self):
        written = {("seconds", 100000, "text"): 0.1, ("ours", 20): 174.0,
                ("RE2::Set", 20): 161.0}
        lines = page.table(written, page.measured(
            OUTPUT.format(seconds=0.40)))
        self.assertIn("2.00x of the time", lines[0])
        self.assertIn("4.00x   2.00x   slower than written", lines[2])
        self.assertNotIn("slower than written", lines[3])
        lines = page.table(written, page.measured(
            OUTPUT.format(seconds=0.25)))
        self.assertNotIn("slower than written", lines[2])

    def test_an_output_that_is_not_understood_is_said(self):
        lines = page.table({"reading": 1.0}, {})
        self.assertIn("nothing to compare", lines[-1])

    def test_blocks_come_between_their_marks_with_the_machine(self):
        blocks = page.blocks_of(OUTPUT.format(seconds=0.25))
        self.assertEqual(list(blocks), ["whole", "matching"])
        text = "a\n<!-- whole -->\nold\n<!-- /whole -->\nb\n"
        now = page.written(text, {"whole": blocks["whole"]}, "a day; a machine")
        self.assertTrue(now.startswith("a\n<!-- whole -->\na day; a machine\n"))
        self.assertIn("0.25 s", now)
        self.assertNotIn("old", now)
        self.assertEqual(
            page.written(now, {"whole": "x"}, "m"),
            page.written(text, {"whole": "x"}, "m"))

    def test_a_block_without_a_place_is_an_error(self):
        with self.assertRaises(ValueError):
            page.written("no marks", {"whole": "x"}, "m")

    def test_every_block_of_the_benchmarks_has_a_place(self):
        text = page.PAGE.read_text("utf-8")
        bench = pathlib.Path(__file__).parent
        printed = "".join(path.read_text("utf-8")
                          for path in bench.glob("*.cc"))
        printed += (bench.parents[1] / "scripts" / "bench").read_text("utf-8")
        names = set(re.findall(r"### (\w[\w-]*)(?=\\n|\n)", printed))
        self.assertGreaterEqual(len(names), 7)
        for name in names:
            self.assertIn(f"<!-- {name} -->", text)


class Growth(unittest.TestCase):
    def test_a_row_that_grows_too_fast_fails(self):
        counted = growth.count
        row = growth.Row("tensors", ["resolve"], None, [1, 2], guarded=100)
        try:
            growth.count = lambda program, row, size: 200 + 5 * size
            self.assertEqual(growth.guard("", [row], 1)[1], [])
            # Where a seventh of the work grows with the square.
            growth.count = lambda program, row, size: (
                200 + 5 * size + size * size // 80)
            lines, above = growth.guard("", [row], 1)
            self.assertEqual(above, [row])
            self.assertIn("grows too fast", lines[0])
            row.devices = True
            growth.count = lambda program, row, size: 1000
            self.assertEqual(growth.guard("", [row], 1)[1], [])
            growth.count = lambda program, row, size: 1000 + size // 100
            self.assertEqual(growth.guard("", [row], 1)[1], [row])
        finally:
            growth.count = counted

    def test_what_grows_is_guarded(self):
        guarded = {row.what.split(",")[0] for row in growth.rows()
                   if row.guarded}
        for what in ("tensors", "rules", "findings", "layers", "devices"):
            self.assertIn(what, guarded)


def small(tensors):
    return instructions.Workload(
        "small", ["resolve", "model.json", "--rules", "rules.yaml",
                  *instructions.MESH],
        {"model.json": instructions.model(tensors),
         "rules.yaml": instructions.rules(instructions.MODEL_RULES)})


@unittest.skipUnless(PROGRAM, "no program given")
class Counting(unittest.TestCase):
    def setUp(self):
        self.program = str(pathlib.Path(PROGRAM).resolve())
        self.workloads = instructions.workloads

    def tearDown(self):
        instructions.workloads = self.workloads

    def guard(self, tensors, record, *flags):
        instructions.workloads = lambda: [small(tensors)]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = instructions.main(
                [self.program, "--record", str(record), *flags])
        return code, out.getvalue()

    def test_work_that_grows_by_a_tenth_is_caught_and_back_again_praised(self):
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder, "record.json")
            self.assertEqual(self.guard(20000, record, "--update")[0], 0)
            code, output = self.guard(20000, record)
            self.assertEqual(code, 0, output)
            self.assertIn("1.000x", output)
            code, output = self.guard(23000, record)
            self.assertEqual(code, 1, output)
            self.assertIn("above the record", output)
            self.assertEqual(self.guard(23000, record, "--update")[0], 0)
            code, output = self.guard(20000, record)
            self.assertEqual(code, 0, output)
            self.assertIn("better: record it", output)

    def test_what_cannot_run_is_no_count(self):
        broken = small(10)
        broken.command = ["resolve", "absent.json"]
        with self.assertRaises(instructions.CannotCount):
            instructions.count(self.program, broken)


if __name__ == "__main__":
    unittest.main()
