// SPDX-License-Identifier: Apache-2.0
#include "cli/views/gate_tables.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "cli/views/gate_remarks.h"
#include "tests/support/reports.h"
#include "tests/support/words.h"

namespace shardplan::cli {
namespace {

using testing::has_text;

GateChange placement(const std::string& what, const SourceFile* file = nullptr,
                     bool before = false) {
  GateChange change;
  change.kind = GateKind::Placement;
  change.target = "llama";
  change.what = what;
  change.before = PartitionSpec{{{"tp"}}};
  change.after = PartitionSpec{};
  change.lost = {"tp"};
  change.bytes_per_device = 10;
  if (file != nullptr) {
    change.line = {file->name(), 1, before, {file, 0, 1}};
  }
  return change;
}

GateChange memory_change() {
  GateChange change;
  change.kind = GateKind::Memory;
  change.target = "llama";
  change.what = "fullest device";
  change.before = ChangeBytes{100};
  change.after = ChangeBytes{80};
  change.bytes_per_device = -20;
  change.of_bytes = 100;
  return change;
}

struct Shown {
  std::vector<GateChange> changes;
  std::vector<GateChange> of_all;
  GateView view;

  explicit Shown(std::vector<GateChange> of_target)
      : changes(std::move(of_target)) {
    view.base = "old/";
    view.head = "new/";
    GateTarget target;
    target.name = "llama";
    target.changes = &changes;
    view.targets = {target};
    view.changes = &of_all;
  }
};

}  // namespace

TEST_CASE("gate's table: many placements hide neither memory nor collectives") {
  std::vector<GateChange> changes;
  for (int i = 0; i < 30; ++i) {
    changes.push_back(placement("w" + std::to_string(i)));
  }
  changes.push_back(memory_change());
  GateChange collective;
  collective.kind = GateKind::Collective;
  collective.what = "all-gather over tp of w";
  changes.push_back(collective);
  Shown shown(changes);
  const std::string text = rendered(gate_report(shown.view), "text");
  CHECK(has_text(text, "(32 changes; --expand shows all)"));
  CHECK(has_text(text, "fullest device"));
  CHECK(has_text(text, "all-gather over tp"));
  CHECK(has_text(text, "w9 "));
  CHECK_FALSE(has_text(text, "w10 "));
  shown.view.expand = true;
  const std::string all = rendered(gate_report(shown.view), "text");
  CHECK(has_text(all, "w29 "));
}

TEST_CASE("gate's remarks: what one line does is one note, of all targets") {
  const SourceFile rules("r.yaml", "x");
  Shown shown({placement("a", &rules), placement("b", &rules),
               placement("a", &rules), memory_change()});
  shown.changes[2].target = "qwen";
  shown.changes.push_back(placement("failing", &rules));
  shown.changes.back().fails = true;
  GateChange finding;
  finding.kind = GateKind::Finding;
  finding.what = "SP203";
  shown.changes.push_back(finding);
  const Diagnostics notes = gate_remarks(shown.view);
  REQUIRE(notes.all().size() == 2);
  const Diagnostic& line = notes.all()[0];
  CHECK(line.severity == Severity::Note);
  CHECK(line.code == Code::LostAxes);
  CHECK(line.message == "`a` loses `tp`: P(tp) → P() (`llama` and `qwen`)");
  CHECK(line.facts ==
        std::vector<std::string>{"`b` loses `tp`: P(tp) → P() (`llama`)"});
  REQUIRE(line.labels.size() == 1);
  CHECK(line.labels[0].where.file == &rules);
  const Diagnostic& memory = notes.all()[1];
  CHECK(memory.code == Code::GatedChange);
  CHECK(memory.labels.empty());
  CHECK(memory.message ==
        "the fullest device uses less: 100 B → 80 B (-20 B) (`llama`)");
}

TEST_CASE("gate's remarks: a line of a revision is named, not pointed at") {
  const SourceFile rules("r.yaml", "x");
  Shown shown({placement("a", &rules, true)});
  CHECK(gate_remarks(shown.view).all().at(0).labels.size() == 1);
  shown.view.base_is_there = false;
  const Diagnostics notes = gate_remarks(shown.view);
  REQUIRE(notes.all().size() == 1);
  CHECK(notes.all()[0].labels.empty());
  CHECK(notes.all()[0].facts ==
        std::vector<std::string>{"at r.yaml:1 before the change"});
}

TEST_CASE("gate's remarks: a note has ten sentences and counts the others") {
  const SourceFile rules("r.yaml", "x");
  std::vector<GateChange> changes;
  for (int i = 0; i < 25; ++i) {
    changes.push_back(placement("w" + std::to_string(i), &rules));
  }
  const Diagnostics notes = gate_remarks(Shown(changes).view);
  REQUIRE(notes.all().size() == 1);
  CHECK(notes.all()[0].facts.size() == 10);
  CHECK(notes.all()[0].facts.back() == "15 more changes");
}

}  // namespace shardplan::cli
