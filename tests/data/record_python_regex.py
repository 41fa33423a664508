#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what Python's re.search answers, one JSON value a line,
for tests/resolve/python_regex_test.cc.

    python3 tests/data/record_python_regex.py > tests/data/python_regex.jsonl

`found` holds one digit per name, or is null where Python rejects the pattern.
"""
import json
import re
import sys
import warnings

warnings.simplefilter("ignore")  # set operations to come

NAMES = [
    "model/layers/0/self_attn/q_proj/kernel", "model.layers.11.mlp.w1.weight",
    "lm_head/kernel", "embed_tokens.embedding", "a", "b", "ab", "aab", "ba",
    "abc", "1", "12", "a1", "a-b", "a b", "a.b", "a{2}", "a{", "{}", "]", "[",
    "\\", "^", "$", "K", "k", "S", "_", "aaaa", "abab", ":", "p", "z", "Z",
]
UNICODE_NAMES = [
    "é", "caf\u00e9/kernel", "É", "\u0663", "a\u0663", "\u017f", "\u212a",
    "\u0130", "a\n", "\n", "a\nb", "\x1c", "a\u00a0b", "\x0b", "\u3000",
    "\u65e5\u672c", "\u00bd", "a\u0301", "\u03c2", "\u1e9e", "\x85",
]

ATOMS = [
    "a", ".", "ab", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\.", r"\-",
    r"\n", r"\x41", r"\u00e9", r"\U0001F600", r"\07", r"\101", r"\0", r"\_",
    "[ab]", "[^a]", "[]a]", "[^]a]", "[a-]", "[-a]", r"[\d.]", r"[\w-]",
    r"[\s]", r"[\S]", r"[\D]", r"[\b]", r"[\1]", r"[\]]", "[[:alpha:]]",
    "[a&&b]", "[a-c]", "(a)", "(?:ab)", "(?P<n>a)", "(a|b)", "(a|)", "()",
    "\u00e9", "[\u00e0-\u00ff]",
]
REPEATS = ["", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}", "{1,}",
           "{,}", "{02}", "{}", "{a}", "{1", "{ 1}"]
WHOLE = [
    "", "^a", "a$", "^a$", r"\Aa", r"a\Z", r"^a\Z", r"\bk", r"k\b", r"\Bb",
    "a|b", "|a", "a|", "^$", "^", "$", ".*", "^.+$", "kernel$", r"layers/\d+/",
    r"layers\.\d+\.mlp\.w[123]\.", "(?#x)a", r"(?#\))a", "a(?#x)", "a(?#x)*", "(?i)k",
    "(?i)KERNEL", "(?s).", "(?m)^b$", "(?m)a$", "(?a)\\w", "(?a)\\d", "(?a)\\s",
    "(?a)a$", "(?u)\\w", "(?ims)A", "(?i:K)", "(?s:.)", "(?s-i:a.)", "(?-i:a)",
    "(?m:a$)", "(?i)(?s)a", "(?#c)(?i)K", "(?i)\u0130", "(?P<a>a)(?P<b>b)",
    "a{0}", "(?:a|b)+$", "((a))", "(a(b(c)))", "a{1000}", "}", "a}", "]", "a]",
    "{", "a{", "{,", "x{1,y}", "\\{", r"\[", "(?:)", "(?:)*", "(^)*", "(?:$)?",
    "[\u4e00-\u9fff]", "(?P<_1>a)",
]
INVALID = [
    "(", ")", "(a", "a)", "[", "[a", "[]", "[^]", "[b-a]", r"[\d-z]", r"[a-\d]",
    "*", "+a", "?", "(*a)", "a|*", "a**", "a*?*", "a??+", "^*", "$+", r"\b*",
    r"\Z?", "{2}", "({2})", "a{2}{3}", "a{3,2}", "a{2}*", "\\", r"\z", r"\pL",
    r"\Q.\E", r"\C", r"\xg1", r"\x4", r"\u12", r"\U00110000", r"\400", r"[\400]",
    r"[\8]", r"[\B]", r"\8", r"\1", r"(a)\2", "w(?i)", "(?i", "(?z)", "(?-:a)",
    "(?i-i:a)", "(?i-)", "(?au)", "(?a)(?u)", "(?L)a", "(?L:a)", "(?P<a-b>a)",
    "(?P<>a)", "(?P<1>a)", "(?P<a>b)(?P<a>c)", "(?P<a", "(?P>a)", "(?Px)",
    "(?<a>b)", "(?#", "(?", "(?a", "((?i)a)", "|(?i)a", "(?i)*", "a*(?#)?",
    "a{2}(?#)+", r"\N{DIGIT ONE}x\c", r"\y", r"[\y]", "(?P=a)", "(?<a", r"(?#\)", "(?P<n>?)", "(?(1)a",
]
UNSUPPORTED = [
    "(?=a)", "(?!a)", "(?<=a)b", "(?<!a)b", "(?>a)", r"(a)\1", "(?P<x>a)(?P=x)",
    "(a)?(?(1)b|c)", "a++", "a*+", "a?+", "a{2}+", "a{1001}", "(?x) a",
    "(?a:a)", "(?u:a)", "(?P<\u00e9>a)", r"\N{DIGIT ONE}", r"\ud800",
    "^(?!.*(?:embedding|norm|lm_head)).*$",
]


def answer(pattern, names):
    try:
        compiled = re.compile(pattern)
    except (re.error, ValueError, OverflowError, RecursionError):
        return None
    return "".join("1" if compiled.search(name) else "0" for name in names)


def main():
    patterns = [atom + repeat for atom in ATOMS for repeat in REPEATS]
    patterns += WHOLE + INVALID + UNSUPPORTED
    rows = []
    for pattern in dict.fromkeys(patterns):
        rows.append({"pattern": pattern,
                     "plain": answer(pattern, NAMES),
                     "unicode": answer(pattern, UNICODE_NAMES)})
    json.dump({"names": NAMES, "unicode_names": UNICODE_NAMES}, sys.stdout)
    sys.stdout.write("\n")
    for row in rows:
        json.dump(row, sys.stdout)
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
