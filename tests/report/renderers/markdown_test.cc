// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "base/check.h"
#include "tests/support/reports.h"

namespace shardplan {

TEST_CASE("Markdown has the headline, tables for people and the findings") {
  const SourceFile rules("rules.yaml", "- [w, [tp]]\n");
  Diagnostics diags;
  diags
      .report(Code::IndivisibleDimension, span_of(rules, "tp"),
              "dimension 0 of `a_b` is not divisible by *its* axes")
      .fact("3 mod 2 = 1")
      .help("pad `a_b`");
  diags.report(Code::UnusedAxis, {}, "axis `sp` shards nothing");
  Report report = sample_report();
  report.diagnostics = &diags;
  CHECK("\n" + rendered(report, "markdown") == R"(
### shardplan resolve

tiny: 2 parameters  
mesh fsdp=4,tp=2: 8 devices

| parameter | spec | per device | rule |
| --- | --- | ---: | ---: |
| `layers/*/mlp/up_proj/kernel` | P(None, (fsdp, tp)) | 31.3 MiB | 1 |
| `norm` | P() | 4.00 KiB | – |
| | | **31.3 MiB** | |

**Memory per device**

| | | |
| --- | ---: | --- |
| weights | 512 B | ███████████████ |
| gradients | 1.00 KiB | ██████████████████████████████ |

1 dimension is not divisible by its axes

- **warning SP203** dimension 0 of `a_b` is not divisible by \*its\* axes (`rules.yaml:1:8`)
  - 3 mod 2 = 1
  - help: pad `a_b`
- **warning SP204** axis `sp` shards nothing

`shardplan explain SP203` describes a code
)");
}

TEST_CASE("a terminal's width, colour and glyphs do not matter to a page") {
  Style style;
  style.width = 20;
  style.colour = true;
  style.unicode = false;
  CHECK(rendered(sample_report(), "markdown", style) ==
        rendered(sample_report(), "markdown"));
  style.exact = true;
  CHECK(rendered(sample_report(), "markdown", style).find("| 32769024 |") !=
        std::string::npos);
}

TEST_CASE("a hostile name stays in its cell") {
  using S = std::string;
  Report report;
  report.command = "resolve";
  report.tables = {{"t",
                    "",
                    {{"a", "a|b", Align::Left, true}, {"b", "b"}},
                    rows_of({{S("x|y"), S("x|y")},
                             {S("x\\|`y"), S("<img src=x>")},
                             {S("new\nline"), S("[a](b)\n| c |")}})}};
  CHECK("\n" + rendered(report, "markdown") == R"(
### shardplan resolve

| a\|b | b |
| --- | --- |
| `x\|y` | x\|y |
| <code>x&#92;&#124;&#96;y</code> | \<img src=x\> |
| `new\nline` | \[a\](b)\\n\| c \| |
)");
}

TEST_CASE("a row that does not fit its table is a bug in Markdown too") {
  Report report;
  report.tables = {{"t", "", {{"key", "key"}}, rows_of({{}})}};
  CHECK_THROWS_AS(rendered(report, "markdown"), InternalError);
}

}  // namespace shardplan
