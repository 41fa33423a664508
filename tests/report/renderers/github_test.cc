// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/reports.h"

namespace shardplan {

TEST_CASE("each finding is an annotation at its place") {
  const SourceFile rules("dir/a,b:c.yaml", "# 100%\n- [w, [tp]]\n");
  Diagnostics diags;
  diags
      .report(Code::IndivisibleDimension, span_of(rules, "tp"),
              "dimension 0 is 50% too long: it has 3, not 2")
      .fact("3 mod 2 = 1")
      .help("pad it");
  diags.report(Code::UnknownAxis, {}, "unknown axis `x`");
  diags.report(Code::SmallParameter, {}, "`w` is\nsmall\r");
  Report report = sample_report();
  report.diagnostics = &diags;
  CHECK("\n" + rendered(report, "github") == R"(
::warning file=dir/a%2Cb%3Ac.yaml,line=2,col=8,endColumn=10,title=SP203 indivisible-dimension::dimension 0 is 50%25 too long: it has 3, not 2%0A= 3 mod 2 = 1%0Ahelp: pad it
::error title=SP201 unknown-axis::unknown axis `x`
::notice title=SP207 small-parameter::`w` is\nsmall\r
)");
}

TEST_CASE("flags and standard input are no files to annotate") {
  const SourceFile mesh("--mesh", "tp=0");
  const SourceFile stdin_text("-", "x");
  const SourceFile named("<stdin>", "x");
  Diagnostics diags;
  diags.error(Code::InvalidMesh, {&mesh, 3, 4}, "m");
  diags.error(Code::MalformedDocument, {&stdin_text, 0, 1}, "d");
  diags.error(Code::MalformedDocument, {&named, 0, 1}, "d");
  Report report;
  report.diagnostics = &diags;
  CHECK(rendered(report, "github") ==
        "::error title=SP007 invalid-mesh::m\n"
        "::error title=SP002 malformed-document::d\n"
        "::error title=SP002 malformed-document::d\n");
}

TEST_CASE("a name cannot start a workflow command of its own") {
  Diagnostics diags;
  diags.report(Code::UnknownKey, {}, "unknown key `a\n::set-output::`")
      .fact("\n::add-mask::x");
  Report report;
  report.diagnostics = &diags;
  CHECK(lines_of(rendered(report, "github")).size() == 1);
  CHECK(rendered(Report{}, "github").empty());
}

}  // namespace shardplan
