// SPDX-License-Identifier: Apache-2.0
// Keeps the map in docs/how-it-works.md true: who includes whom, which file may
// use which library, how large files and folders get, what has tests and a
// page.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/diagnostic.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = source_dir();

bool starts_with(std::string_view text, std::string_view head) {
  return text.substr(0, head.size()) == head;
}

// What each layer may include; main.cc counts as the layer "main.cc".
const std::map<std::string, std::set<std::string>> kLayers = {
    {"base", {"base"}},
    {"core", {"base", "core"}},
    {"syntax", {"base", "core", "syntax"}},
    {"shipped", {"base", "syntax"}},
    {"model", {"base", "core", "syntax", "model"}},
    {"io", {"base", "core", "syntax", "model", "io"}},
    {"resolve", {"base", "core", "model", "resolve"}},
    {"memory", {"base", "core", "model", "resolve", "memory"}},
    {"serve", {"base", "core", "model", "memory", "serve"}},
    {"comm", {"base", "comm"}},
    {"graph", {"base", "core", "model", "graph"}},
    {"spmd", {"base", "core", "comm", "graph", "spmd"}},
    {"sim", {"base", "core", "model", "resolve", "graph", "spmd", "sim"}},
    {"activations",
     {"base", "core", "memory", "graph", "spmd", "sim", "activations"}},
    {"cost", {"base", "core", "comm", "graph", "spmd", "activations", "cost"}},
    {"findings",
     {"base", "core", "model", "resolve", "memory", "serve", "graph", "spmd",
      "sim", "activations", "findings"}},
    {"evaluate",
     {"base", "core", "model", "resolve", "memory", "serve", "sim",
      "activations", "cost", "findings", "evaluate"}},
    {"advise",
     {"base", "core", "model", "resolve", "findings", "evaluate", "advise"}},
    {"search", {"base", "core", "cost", "search"}},
    {"session",
     {"base", "core", "model", "io", "resolve", "memory", "serve",
      "activations", "sim", "cost", "findings", "evaluate", "advise", "search",
      "session"}},
    {"gate",
     {"base", "core", "syntax", "model", "io", "resolve", "memory", "sim",
      "session", "gate"}},
    {"report", {"base", "core", "report"}},
    {"cli",
     {"base",        "core",  "syntax",   "model",    "io",     "resolve",
      "memory",      "serve", "comm",     "graph",    "spmd",   "sim",
      "activations", "cost",  "findings", "evaluate", "advise", "search",
      "session",     "gate",  "report",   "cli"}},
    {"main.cc", {"base", "cli"}},
};

// Leaf folders: what is known of one file format stands in one folder of io,
// and no such folder knows another. What they share stands above them.
bool is_leaf_folder(const std::string& folder) {
  return starts_with(folder, "io/");
}

// What asks a leaf of io itself: graph files, which are no model, and commits.
// All else that is known of a format is asked through io's tables.
const std::map<std::string, std::set<std::string>> kAskedLeaves = {
    {"cli", {"io/graph", "io/git"}}};

// Folders of leaf files: one renderer, algorithm or kind of operation per file,
// none of which knows another. The one header there is their table.
const std::set<std::string> kLeafFiles = {"report/renderers", "comm/algorithms",
                                          "graph/ops"};

// Headers that are slow to compile, or tie a file to a library or system, stay
// in the few files that need them. Paths without extension.
const std::map<std::string, std::set<std::string>> kConfined = {
    {"re2/",
     {"resolve/match", "resolve/distinguished_numbers",
      "model/architecture/module_patterns"}},
    {"yaml-cpp/", {"syntax/yaml"}},
    {"CLI/", {"cli/args"}},
    {"openssl/", {"core/plan", "report/html/packed"}},
    {"zlib.h", {"report/html/packed"}},
    {"nlohmann/", {"report/renderers/sarif"}},
    {"blis", {"graph/gemm"}},
    {"sys/", {"base/child_process", "base/real_host", "base/real_output"}},
    {"dirent.h", {"base/child_process"}},
    {"fcntl.h", {"base/child_process", "base/real_host", "base/real_output"}},
    {"poll.h", {"base/child_process", "base/real_host", "base/real_output"}},
    {"sched.h", {"base/real_host"}},
    {"spawn.h", {"base/child_process"}},
    {"unistd.h", {"base/child_process", "base/real_host", "base/real_output"}},
    {"csignal", {"base/child_process", "base/real_output"}},
    {"pthread.h", {"base/real_output"}},
    {"fstream", {}},
    {"iostream", {}},
    {"filesystem", {"base/real_host", "base/real_output"}},
    {"thread", {"base/parallel"}},
    {"malloc.h", {"base/allocation"}},
    {"random", {"base/real_output"}},
    {"regex", {}},
    {"locale", {}},
};

constexpr size_t kMaxLines = 700;
constexpr size_t kMaxFiles = 26;  // of a folder
// Small files that need not be looked through.
constexpr std::array<std::string_view, 1> kLargeFolders = {"tests/support"};

struct File {
  std::string path;  // below src/ or tests/, with `/`
  std::vector<std::string> lines;
};

std::vector<File> files_below(const std::string& folder) {
  std::vector<File> files;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
    const fs::path& path = entry.path();
    const std::string extension = path.extension();
    if (extension != ".cc" && extension != ".h" && extension != ".def")
      continue;
    File file{fs::relative(path, kRoot / folder).string(), {}};
    std::ifstream stream(path);
    for (std::string line; std::getline(stream, line);) {
      file.lines.push_back(line);
    }
    files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

// "core" for "core/mesh.h".
std::string first_part(const std::string& path) {
  return path.substr(0, path.find('/'));
}

struct Include {
  std::string path;
  bool own = false;  // in quotes
};

std::vector<Include> includes_of(const File& file) {
  std::vector<Include> includes;
  for (const std::string& line : file.lines) {
    if (!starts_with(line, "#include ")) continue;
    const char open = line[9];
    const size_t end = line.find(open == '<' ? '>' : '"', 10);
    includes.push_back({line.substr(10, end - 10), open == '"'});
  }
  return includes;
}

TEST_CASE("each folder includes only the layers below it, and all of them") {
  std::map<std::string, std::set<std::string>> included;
  for (const File& file : files_below("src")) {
    CAPTURE(file.path);
    const auto layer = kLayers.find(first_part(file.path));
    REQUIRE(layer != kLayers.end());
    included[layer->first];
    for (const Include& include : includes_of(file)) {
      if (!include.own) continue;
      CAPTURE(include.path);
      CHECK(layer->second.count(first_part(include.path)) == 1);
      CHECK(fs::exists(kRoot / "src" / include.path));
      included[layer->first].insert(first_part(include.path));
    }
  }
  for (const auto& [name, below] : kLayers) {
    const std::string& layer = name;
    CAPTURE(layer);
    REQUIRE(included.count(layer) == 1);
    for (const std::string& other : below) {
      CHECK_MESSAGE(included.at(layer).count(other) == 1,
                    layer << " includes nothing of " << other);
    }
  }
}

TEST_CASE("layering: no file includes itself, through any number of others") {
  const std::vector<File> files = files_below("src");
  std::map<std::string, std::vector<std::string>> included;
  for (const File& file : files) {
    for (const Include& include : includes_of(file)) {
      if (include.own) included[file.path].push_back(include.path);
    }
  }
  // A file that includes only files that are done is done.
  std::set<std::string> done;
  for (size_t before = 1; before != done.size();) {
    before = done.size();
    for (const File& file : files) {
      const auto& others = included[file.path];
      if (std::all_of(others.begin(), others.end(), [&](const auto& other) {
            return done.count(other) == 1;
          })) {
        done.insert(file.path);
      }
    }
  }
  for (const File& file : files) {
    CHECK_MESSAGE(done.count(file.path) == 1, file.path << " is in a circle");
  }
  CHECK(done.size() > 500);
}

TEST_CASE("leaves include no leaves") {
  for (const std::string& folder : kLeafFiles) {
    CHECK_MESSAGE(fs::is_directory(kRoot / "src" / folder), folder);
  }
  size_t leaves = 0;
  for (const File& file : files_below("src")) {
    const std::string folder = fs::path(file.path).parent_path();
    if (is_leaf_folder(folder) || kLeafFiles.count(folder) > 0) ++leaves;
    for (const Include& include : includes_of(file)) {
      if (!include.own) continue;
      const std::string target = fs::path(include.path).parent_path();
      CAPTURE(file.path);
      CAPTURE(include.path);
      if (is_leaf_folder(folder) && is_leaf_folder(target)) {
        CHECK(folder == target);
      }
      const fs::path own = fs::path(file.path).replace_extension(".h");
      if (kLeafFiles.count(target) > 0 && include.path != own) {
        const std::string table = fs::path(target).filename();
        CHECK(include.path == target + "/" + table + ".h");
      }
    }
  }
  CHECK(leaves > 50);
}

TEST_CASE("layering: formats are asked through io's tables") {
  std::set<std::pair<std::string, std::string>> asked;
  for (const File& file : files_below("src")) {
    const std::string layer = first_part(file.path);
    for (const Include& include : includes_of(file)) {
      const std::string folder = fs::path(include.path).parent_path();
      if (layer == "io" || !include.own || !is_leaf_folder(folder)) continue;
      CAPTURE(file.path);
      CAPTURE(include.path);
      const auto leaves = kAskedLeaves.find(layer);
      CHECK(leaves != kAskedLeaves.end());
      if (leaves == kAskedLeaves.end()) continue;
      CHECK(leaves->second.count(folder) == 1);
      asked.emplace(layer, folder);
    }
  }
  for (const auto& [layer, leaves] : kAskedLeaves) {
    for (const std::string& leaf : leaves) {
      CHECK(asked.count({layer, leaf}) == 1);
    }
  }
}

TEST_CASE("libraries and the system are used where they belong, and there") {
  std::set<std::pair<std::string, std::string>> used;
  for (const File& file : files_below("src")) {
    const std::string stem = fs::path(file.path).replace_extension();
    for (const Include& include : includes_of(file)) {
      if (include.own) continue;
      for (const auto& [head, places] : kConfined) {
        const bool folder = head.back() == '/' || head == "blis";
        if (folder ? !starts_with(include.path, head) : include.path != head) {
          continue;
        }
        CAPTURE(file.path);
        CAPTURE(include.path);
        const auto place = std::find_if(
            places.begin(), places.end(), [&](const std::string& each) {
              return each.back() == '/' ? starts_with(stem, each)
                                        : stem == each;
            });
        const bool allowed = place != places.end();
        CHECK(allowed);
        if (allowed) used.emplace(head, *place);
      }
      if (starts_with(include.path, "fmt/")) {
        CHECK_MESSAGE(fs::path(file.path).extension() == ".cc", file.path);
      }
    }
  }
  for (const auto& confined : kConfined) {
    const std::string& head = confined.first;
    for (const std::string& place : confined.second) {
      CHECK_MESSAGE(used.count({head, place}) == 1,
                    place << " does not include " << head);
    }
  }
}

TEST_CASE("layering: RapidCheck is read in two files of the tests") {
  std::set<std::string> found;
  for (const std::string folder : {"src", "tests"}) {
    for (const File& file : files_below(folder)) {
      for (const Include& include : includes_of(file)) {
        if (starts_with(include.path, "rapidcheck")) {
          found.insert(folder + "/" + file.path);
        }
      }
    }
  }
  CHECK(found == std::set<std::string>{"tests/support/generators.cc",
                                       "tests/support/property.cc"});
}

TEST_CASE("a file is one idea, and a folder can be looked through") {
  std::vector<std::pair<size_t, std::string>> sizes;
  std::map<std::string, size_t> in_folder;
  for (const std::string folder : {"src", "tests"}) {
    for (const File& file : files_below(folder)) {
      const std::string path = folder + "/" + file.path;
      sizes.emplace_back(file.lines.size(), path);
      CAPTURE(path);
      CHECK(file.lines.size() <= kMaxLines);
      ++in_folder[fs::path(path).parent_path()];
    }
  }
  std::sort(sizes.rbegin(), sizes.rend());
  sizes.resize(std::min<size_t>(sizes.size(), 5));
  std::string largest = "the largest files:";
  for (const auto& [lines, path] : sizes) {
    largest += " " + path + " " + std::to_string(lines);
  }
  MESSAGE(largest);
  for (const auto& [folder, files] : in_folder) {
    const size_t count = files;
    const std::string which = folder;
    const bool may_be_large =
        std::find(kLargeFolders.begin(), kLargeFolders.end(), folder) !=
        kLargeFolders.end();
    CHECK_MESSAGE((count > kMaxFiles) == may_be_large, which);
  }
}

TEST_CASE("every file says its licence, and headers are included once") {
  for (const std::string folder : {"src", "tests"}) {
    for (const File& file : files_below(folder)) {
      CAPTURE(file.path);
      REQUIRE_FALSE(file.lines.empty());
      const bool header = fs::path(file.path).extension() == ".h";
      if (fs::path(file.path).extension() == ".def") continue;
      CHECK(file.lines[0] == "// SPDX-License-Identifier: Apache-2.0");
      const bool once =
          std::count(file.lines.begin(), file.lines.end(), "#pragma once") == 1;
      CHECK(once == header);
    }
  }
}

TEST_CASE("every folder has tests") {
  std::set<std::string> folders;
  for (const File& file : files_below("src")) {
    const fs::path path(file.path);
    if (path.extension() == ".cc" && path.has_parent_path()) {
      folders.insert(path.parent_path());
    }
  }
  std::set<std::string> tested;
  for (const File& file : files_below("tests")) {
    if (!file.path.ends_with("_test.cc")) continue;
    tested.insert(fs::path(file.path).parent_path());
    tested.insert(file.path.substr(0, file.path.size() - 8));
  }
  for (const std::string& folder : folders) {
    CHECK_MESSAGE(tested.count(folder) == 1, folder << " has no tests");
  }
  CHECK(folders.size() > 20);
}

TEST_CASE("every code has a page") {
  std::set<std::string> pages;
  for (const CodeInfo& info : all_codes()) {
    const std::string page = code_id(info.code) + ".md";
    CAPTURE(page);
    CHECK(fs::exists(kRoot / "docs/codes" / page));
    pages.insert(page);
  }
  for (const auto& entry : fs::directory_iterator(kRoot / "docs/codes")) {
    const std::string page = entry.path().filename();
    CHECK_MESSAGE(pages.count(page) == 1, page << " is of no code");
  }
}

// Everything is judged in one place: whoever else put resolving, measuring,
// budgets, steps, engines and findings together would judge otherwise some day.
TEST_CASE("layering: only evaluate judges") {
  // Each with the folder that defines it.
  const std::map<std::string, std::string> of_folder = {
      {"make_lint_input", "findings/"},
      {"make_budget", "memory/"},
      {"layers_by_shapes", "activations/"},
      {"step_memory", "activations/"},
      {"serve", "serve/"}};
  std::set<std::string> called;
  for (const File& file : files_below("src")) {
    for (const std::string& line : file.lines) {
      for (const auto& each : of_folder) {
        const std::string& name = each.first;
        const std::string& folder = each.second;
        const size_t place = line.substr(0, line.find("//")).find(name + "(");
        if (place == std::string::npos || starts_with(file.path, folder) ||
            (place > 0 &&
             (std::isalnum(static_cast<unsigned char>(line[place - 1])) != 0 ||
              line[place - 1] == '_'))) {
          continue;
        }
        CAPTURE(file.path);
        CAPTURE(name);
        CHECK(starts_with(file.path, "evaluate/"));
        called.insert(name);
      }
    }
  }
  CHECK(called.size() == of_folder.size());
}

// Two types of one name are one type to the linker, and then neither.
TEST_CASE("layering: a type is defined in one header") {
  std::map<std::string, std::string> defined;
  for (const File& file : files_below("src")) {
    if (!file.path.ends_with(".h")) continue;
    std::string space;
    for (const std::string& line : file.lines) {
      if (starts_with(line, "namespace ")) space = line;
      for (const std::string_view kind : {"struct ", "class ", "enum class "}) {
        if (!starts_with(line, kind) || line.ends_with(';')) continue;
        const size_t end = line.find_first_of(" {:", kind.size());
        const std::string name =
            space + line.substr(kind.size(), end - kind.size());
        CAPTURE(file.path);
        CAPTURE(name);
        const auto [place, added] = defined.emplace(name, file.path);
        const std::string& first = place->second;
        const bool is_new = added;
        CHECK_MESSAGE(is_new, "also in " << first);
      }
    }
  }
  CHECK(defined.size() > 100);
}

// What the documents say of the tree.

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream stream(path);
  REQUIRE_MESSAGE(stream.good(), path.string());
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// What stands between backticks.
std::vector<std::string> code_in(const std::string& text) {
  const std::vector<std::string> parts = split(text, '`');
  std::vector<std::string> code;
  for (size_t i = 1; i + 1 < parts.size(); i += 2) code.push_back(parts[i]);
  return code;
}

// A row of the map: a folder, what it is for, what it includes. The row of
// `io/<format>/` stands for the folders that its second cell names; folders
// within a layer include "the same" as the layer.
struct MapRow {
  std::vector<std::string> folders;  // below src, without the last `/`
  std::string includes;              // the cell
};

std::vector<MapRow> map_of_folders() {
  std::vector<MapRow> rows;
  for (const std::string& line : lines_of(kRoot / "docs/how-it-works.md")) {
    const std::vector<std::string> cells = split(line, '|');
    if (cells.size() != 5 || !starts_with(cells[1], " `")) continue;
    CAPTURE(line);
    const std::string folder = code_in(cells[1]).at(0);
    REQUIRE(folder.ends_with('/'));
    MapRow row{{}, cells[3]};
    const size_t pattern = folder.find('<');
    if (pattern == std::string::npos) {
      row.folders.push_back(folder.substr(0, folder.size() - 1));
    } else {
      for (const std::string& name : code_in(cells[2])) {
        row.folders.push_back(folder.substr(0, pattern) + name);
      }
    }
    rows.push_back(row);
  }
  return rows;
}

// "`resolve`, `graph`", "all above but `model`", "nothing".
std::set<std::string> named_in(const std::string& cell,
                               const std::set<std::string>& above) {
  const std::vector<std::string> code = code_in(cell);
  if (!starts_with(cell, " all above")) return {code.begin(), code.end()};
  std::set<std::string> names = above;
  for (const std::string& name : code) names.erase(name);
  return names;
}

// For messages: the map says once for all that each may include `base`, `core`
// and itself.
std::string others_text(const std::set<std::string>& layers,
                        const std::string& own) {
  std::string text;
  for (const std::string& name : layers) {
    if (name == "base" || name == "core" || name == own) continue;
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

TEST_CASE("layering: the map of how-it-works.md is the tree") {
  std::map<std::string, std::set<std::string>> included;
  for (const File& file : files_below("src")) {
    for (const Include& include : includes_of(file)) {
      if (!include.own) continue;
      included[first_part(file.path)].insert(first_part(include.path));
    }
  }
  std::set<std::string> mapped;
  std::set<std::string> layers;
  for (const MapRow& row : map_of_folders()) {
    for (const std::string& folder : row.folders) {
      CAPTURE(folder);
      CHECK(fs::is_directory(kRoot / "src" / folder));
      CHECK(mapped.insert(folder).second);
      if (folder.find('/') != std::string::npos) {
        CHECK(layers.count(first_part(folder)) == 1);
        CHECK(row.includes == " the same ");
      } else {
        CHECK(others_text(named_in(row.includes, layers), folder) ==
              others_text(included[folder], folder));
        layers.insert(folder);
      }
    }
  }
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "src")) {
    if (!entry.is_directory()) continue;
    const std::string folder = fs::relative(entry.path(), kRoot / "src");
    CHECK_MESSAGE(mapped.count(folder) == 1, folder << " is not in the map");
  }
}

// `src/io/<format>/x.cc`, `tests/cases/x.md`, `tests/vectors/*.json`: of a
// path that stands for several only the folders before them can be checked.
bool stands_for_several(const std::string& part) {
  const std::string stem = fs::path(part).stem();
  return part.find_first_of("<*{") != std::string::npos || stem == "x" ||
         stem.ends_with("_x");
}

bool is_there(const std::string& path) {
  fs::path known = kRoot;
  for (const std::string& part : split(path, '/')) {
    if (stands_for_several(part)) break;
    known /= part;
  }
  return fs::exists(known);
}

// Words that begin with a folder of the project; not those within longer paths
// or addresses.
std::vector<std::string> paths_in(const std::string& line) {
  static const std::set<std::string> kFolders = {
      "src", "tests", "scripts", "docs", "third_party", ".ci"};
  std::vector<std::string> paths;
  std::string word;
  for (const char c : line + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
        std::string_view("_-./<>*{},").find(c) != std::string_view::npos) {
      word += c;
      continue;
    }
    while (!word.empty() && std::string_view("./,>").find(word.back()) !=
                                std::string_view::npos) {
      word.pop_back();
    }
    const std::string path = std::exchange(word, {});
    if (path.find('/') != std::string::npos &&
        kFolders.count(first_part(path)) > 0) {
      paths.push_back(path);
    }
  }
  return paths;
}

// `base/text` in prose is src/base/text.h, and `resolve` is a folder.
bool is_in_src(const std::string& path) {
  return is_there("src/" + path) || is_there("src/" + path + ".h") ||
         is_there("src/" + path + ".cc");
}

// `[text](page.md#heading)`: what stands in the second brackets.
std::vector<std::string> links_in(const std::string& line) {
  std::vector<std::string> links;
  for (size_t at = line.find("]("); at != std::string::npos;
       at = line.find("](", at + 1)) {
    const std::string target =
        line.substr(at + 2, line.find_first_of(")#", at + 2) - at - 2);
    if (!target.empty() && target.find("://") == std::string::npos) {
      links.push_back(target);
    }
  }
  return links;
}

TEST_CASE("layering: paths and links in documents lead somewhere") {
  // MaxText's own tests.
  const std::string foreign = "tests/utils/sharding_info";
  std::vector<fs::path> pages = {kRoot / "README.md",
                                 kRoot / "third_party/README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  size_t checked = 0;
  for (const fs::path& page : pages) {
    CAPTURE(page.string());
    // Pages about the source name its modules; names of parameters look alike.
    const fs::path folder = fs::relative(page.parent_path(), kRoot);
    const bool names_modules = folder == "docs/design" ||
                               page.filename() == "how-it-works.md" ||
                               page.filename() == "contributing.md";
    for (const std::string& line : lines_of(page)) {
      for (const std::string& path : paths_in(line)) {
        if (starts_with(path, foreign)) continue;
        CHECK_MESSAGE(is_there(path), path << " is not there");
        ++checked;
      }
      for (const std::string& link : links_in(line)) {
        CHECK_MESSAGE(fs::exists(page.parent_path() / link),
                      link << " leads nowhere");
        ++checked;
      }
      if (!names_modules) continue;
      for (const std::string& code : code_in(line)) {
        if (code.find_first_of(" *=") != std::string::npos) continue;
        if (kLayers.count(first_part(code)) == 0) continue;
        CHECK_MESSAGE(is_in_src(code), code << " is not in src");
        ++checked;
      }
    }
  }
  CHECK(checked > 300);
}

}  // namespace
}  // namespace shardplan
