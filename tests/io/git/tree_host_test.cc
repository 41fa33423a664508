// SPDX-License-Identifier: Apache-2.0
#include "io/git/tree_host.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "base/parallel.h"
#include "base/real_host.h"
#include "io/load.h"
#include "tests/support/git_folder.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/skip.h"

namespace shardplan {
namespace {

using testing::Folder;
using testing::GitFolder;
using testing::HostAt;

// A commit as files, seen from a folder of the checkout.
struct Checkout {
  explicit Checkout(const std::string& folder,
                    const std::string& revision = "HEAD")
      : below(*real, folder) {
    Diagnostics diags;
    repository = find_git_repository(below, diags);
    commit = resolve_revision(revision, {}, below, diags);
    CHECK(testing::messages(diags) == "");
    REQUIRE(repository);
    REQUIRE(commit);
    begin();
  }
  // Anew: nothing is known of the commit.
  void begin() {
    host.emplace(below, *repository, *commit);
    below.commands.clear();
  }
  // The contents, or why there are none.
  std::string text(const std::string& path, int64_t limit = kWholeFile) {
    std::string why;
    const auto bytes = host->read_file(path, limit, why);
    CHECK((bytes == nullptr) == !why.empty());
    return bytes ? std::string(bytes->view()) : "! " + why;
  }
  // How often git was started.
  size_t started() const { return below.commands.size(); }

  std::unique_ptr<Host> real = make_real_host();
  HostAt below;
  std::optional<GitRepository> repository;
  std::optional<GitCommit> commit;
  std::optional<GitTreeHost> host;
};

constexpr const char* kOutside =
    "! it is outside the repository, so no revision contains it";

TEST_CASE("files of a commit are those that it recorded") {
  const GitFolder git;
  git.put("rules.yaml", "old");
  git.put("models/a.json", "{}");
  git.put("models/deep/b.json", "[]");
  git.put("empty", "");
  git.commit();
  git.put("rules.yaml", "new");
  git.put("added", "x");
  git.commit();
  git.put("rules.yaml", "not committed");
  git.run("git rm -q --cached empty");

  Checkout old(git.path(), "HEAD~1");
  CHECK(old.text("rules.yaml") == "old");
  CHECK(old.text("./models/../rules.yaml") == "old");
  CHECK(old.text(git.path() + "/rules.yaml") == "old");
  CHECK(old.text("empty") == "");
  CHECK(old.text("models//deep/./b.json") == "[]");
  CHECK(old.text("added") == "! no such file in `HEAD~1`");
  CHECK(old.text("models") == "! is a directory");
  CHECK(old.text(".") == "! is a directory");
  CHECK(old.text("rules.yaml/x") == "! `rules.yaml` is not a directory");
  CHECK(old.text("models/none/../a.json") == "! no such file in `HEAD~1`");
  CHECK(old.text("") == "! is a directory");

  Checkout head(git.path());
  CHECK(head.text("rules.yaml") == "new");
  CHECK(head.text("added") == "x");
  using Names = std::vector<std::string>;
  CHECK(head.host->list_directory(".") ==
        Names{"added", "empty", "models", "rules.yaml"});
  CHECK(head.host->list_directory("models") == Names{"a.json", "deep"});
  CHECK(head.host->list_directory("none").empty());
  CHECK(head.host->list_directory("added").empty());
  CHECK(head.host->list_directory("..").empty());
  const auto file = head.host->file_info("models/a.json");
  REQUIRE(file);
  CHECK_FALSE(file->directory);
  CHECK(file->size == 2);
  CHECK(file->owner == head.host->user());
  CHECK(head.host->file_info("models")->directory);
  CHECK(head.host->file_info(git.path())->directory);
  CHECK_FALSE(head.host->file_info("none"));
  CHECK(head.host->real_path("models/deep/..") == git.path() + "/models");
  CHECK(head.host->real_path(".") == git.path());
  CHECK_FALSE(head.host->real_path("none"));
  CHECK(head.host->problem() == "");
  // One git for contents and one for sizes, however many files there are.
  CHECK(head.started() == 2);
}

TEST_CASE("paths are seen from the folder where we stand") {
  const GitFolder git;
  git.put("rules.yaml", "root");
  git.put("a/rules.yaml", "in a");
  git.commit();
  git.put("new/b/x", "x");
  git.run("ln -s a link");
  Checkout in_a(git.path() + "/a");
  CHECK(in_a.text("rules.yaml") == "in a");
  CHECK(in_a.text("../rules.yaml") == "root");
  CHECK(in_a.text("../a/rules.yaml") == "in a");
  CHECK(in_a.host->working_directory() == git.path() + "/a");
  // The commit does not have the folder, which is there all the same.
  Checkout in_new(git.path() + "/new/b");
  CHECK(in_new.text("../../rules.yaml") == "root");
  CHECK(in_new.text(git.path() + "/new/b/../../rules.yaml") == "root");
  CHECK(in_new.text("x") == "! no such file in `HEAD`");
  CHECK(in_new.host->list_directory(".").empty());
}

TEST_CASE("what is outside of the repository is not there") {
  const GitFolder git;
  git.put("f", "x");
  git.put("sub/f", "y");
  git.commit();
  Checkout head(git.path());
  const std::string name = std::filesystem::path(git.path()).filename();
  for (const std::string path :
       {"/etc/passwd", "../f", "..", "/", "sub/../../f", "/dev/stdin",
        "/proc/self/environ"}) {
    CAPTURE(path);
    CHECK(head.text(path) == kOutside);
    CHECK_FALSE(head.host->file_info(path));
    CHECK_FALSE(head.host->real_path(path));
    CHECK(head.host->list_directory(path).empty());
  }
  CHECK(head.text(git.path() + "x/f") == kOutside);
  CHECK(head.text("../" + name + "/f") == "x");
  // It looks like the root of a repository, in which nothing can be read.
  CHECK(head.host->file_info(git.path() + "/.git")->directory);
  CHECK(head.text(".git/config") == "! a revision does not contain `.git`");
  CHECK_FALSE(head.host->file_info(".git/config"));
  CHECK(head.host->list_directory(".git").empty());
  CHECK_FALSE(head.host->file_info("sub/.git"));
}

TEST_CASE("links and submodules are not followed") {
  const GitFolder git;
  git.put("real/f", "x");
  git.run(
      "ln -s real/f link; ln -s real folder; ln -s /etc/passwd out; "
      "mkdir sub; git add -A; git update-index --add --cacheinfo "
      "160000,1234567890123456789012345678901234567890,sub; "
      "git commit -q -m x");
  Checkout head(git.path());
  const std::string link =
      "a symbolic link, which is not followed in a revision";
  CHECK(head.text("link") == "! it is " + link);
  CHECK(head.text("out") == "! it is " + link);
  CHECK(head.text("folder/f") == "! `folder` is " + link);
  CHECK(head.text("folder/../real/f") == "! it is " + link);
  CHECK(head.text("sub") ==
        "! it is a submodule, which is not followed in a revision");
  CHECK(head.text("sub/f") ==
        "! `sub` is a submodule, which is not followed in a revision");
  for (const std::string path : {"link", "folder", "sub", "folder/f"}) {
    CAPTURE(path);
    REQUIRE(head.host->file_info(path));
    CHECK_FALSE(head.host->file_info(path)->directory);
    CHECK(head.host->list_directory(path).empty());
  }
  // A reader says so, too, and does not guess at other names.
  Diagnostics diags;
  CHECK(read_source("link", kWholeFile, *head.host, diags) == nullptr);
  CHECK(testing::messages(diags) == "SP001 cannot read `link`: it is " + link);
  CHECK(diags.all().front().help.empty());
}

TEST_CASE("names may be anything that git records") {
  const GitFolder git;
  const std::vector<std::string> names = {"a b",      "c\nd", "\"e\"", "-f",
                                          "\xff\xfe", "g\th", "HEAD:x"};
  for (const std::string& name : names) git.put("d/" + name, "in " + name);
  git.put("d/x\ny/z", "deep");
  git.commit();
  Checkout head(git.path());
  for (const std::string& name : names) {
    CHECK(head.text("d/" + name) == "in " + name);
  }
  CHECK(head.text("d/x\ny/z") == "deep");
  CHECK(head.host->list_directory("d").size() == names.size() + 1);
}

TEST_CASE("a repository with ids of 64 digits reads the same") {
  const GitFolder git("--object-format=sha256");
  git.put("a/b/c", "x");
  git.put("f", "y");
  git.commit();
  Checkout head(git.path());
  CHECK(head.text("a/b/c") == "x");
  CHECK(head.host->list_directory(".") == std::vector<std::string>{"a", "f"});
}

TEST_CASE("of a large file only what is asked for is read") {
  const GitFolder git;
  std::string large(3 << 20, 'x');
  for (size_t i = 0; i < large.size(); ++i) {
    large[i] = static_cast<char>('a' + i % 23);
  }
  git.put("large", large);
  git.put("small", "0123456789");
  git.commit();
  Checkout head(git.path());
  CHECK(head.host->file_info("large")->size == 3 << 20);
  CHECK(head.text("small", 4) == "0123");
  CHECK(head.text("small", 0) == "");
  CHECK(head.text("small", 100) == "0123456789");
  CHECK(head.started() == 2);
  CHECK((head.text("large", 70000) == large.substr(0, 70000)));
  CHECK(head.started() == 3);
  CHECK((head.text("large", 10) == large.substr(0, 10)));  // kept
  CHECK(head.started() == 3);
  CHECK((head.text("large", 80000) == large.substr(0, 80000)));
  CHECK(head.started() == 4);
  CHECK((head.text("large") == large));
  CHECK((head.text("large", 2 << 20) == large.substr(0, 2 << 20)));
  CHECK(head.started() == 4);
}

// A git that answers as it is told to.
class ScriptedGit : public ChildProcess {
 public:
  explicit ScriptedGit(std::string answers) : answers_(std::move(answers)) {}
  bool write(std::string_view) override { return true; }
  std::optional<std::string> read_line(size_t limit) override {
    const size_t end = answers_.find('\n');
    if (end == std::string::npos || end > limit) return std::nullopt;
    std::string line = answers_.substr(0, end);
    answers_.erase(0, end + 1);
    return line;
  }
  bool read_exactly(std::string& bytes, size_t size) override {
    bytes = read_all(size);
    return bytes.size() == size;
  }
  std::string read_all(size_t limit) override {
    std::string bytes = answers_.substr(0, limit);
    answers_.erase(0, bytes.size());
    return bytes;
  }
  int wait() override { return 128; }
  std::string errors(size_t) override { return "fatal: enough\n"; }

 private:
  std::string answers_;
};

TEST_CASE("of a file larger than memory the beginning is read") {
  const std::string id(40, 'a');
  testing::MemoryHost host;
  host.programs = [&](const std::vector<std::string>& command, std::string&) {
    // The one for contents may not be asked.
    const bool check = command.back() == "--batch-check";
    const bool beginning = command.back() == id;
    CHECK((check || beginning));
    return std::make_unique<ScriptedGit>(check ? id + " blob 100000000000\n"
                                               : std::string(1000, 'x'));
  };
  GitObjects objects(host);
  std::string why;
  CHECK(objects.size(id, why) == 100000000000);
  const auto head = objects.file(id, 300, why);
  REQUIRE(head);
  CHECK(head->view() == std::string(300, 'x'));
  CHECK(objects.file(id, kWholeFile, why) == nullptr);
  CHECK(why ==
        "it is 93.1 GiB; at most 4.00 GiB are read from a revision at once");
  CHECK(objects.file(id, 2000, why) == nullptr);
  CHECK(why == "git exited with code 128: enough");
}

TEST_CASE("git: answers that are not understood are told") {
  const std::string id(40, 'a');
  const auto answer = [&](const std::string& sizes,
                          const std::string& contents) {
    testing::MemoryHost host;
    host.programs = [&](const std::vector<std::string>& command, std::string&) {
      return std::make_unique<ScriptedGit>(
          command.back() == "--batch-check" ? sizes : contents);
    };
    GitObjects objects(host);
    std::string why;
    const auto bytes = objects.file(id, kWholeFile, why);
    return bytes ? std::string(bytes->view()) : "! " + why;
  };
  const std::string size = id + " blob 3\n";
  CHECK(answer(size, size + "abc\n") == "abc");
  const std::string ended = "! git exited with code 128: enough";
  for (const std::string& text :
       {std::string(), size, size + "ab\n", size + "abc", size + "abcd\n",
        std::string(5000, 'x') + "\n"}) {
    CHECK(answer(size, text) == ended);
  }
  CHECK(answer("", "") == ended);
  const std::vector<std::string> nonsense = {
      "a\n",
      "\n",
      id + " blob\n",
      id + " blob x\n",
      id + " blob -1\n",
      id + " blob 3 4\n",
      "x blob 3\n",
      id + " blob 99999999999999999999\n"};
  for (const std::string& text : nonsense) {
    const std::string line = text.substr(0, text.size() - 1);
    const std::string said = "! git gave an unexpected answer: " + line;
    CHECK(answer(text, "") == said);
    CHECK(answer(size, text) == said);
  }
  CHECK(answer(id + " tree 3\n", "") ==
        "! git stores it as a tree, not a file");
  CHECK(answer(size, id + " tree 3\nabc\n") ==
        "! git stores it as a tree, not a blob");
  CHECK(answer(size, id + " blob 99999999999\n") ==
        "! it is 93.1 GiB; at most 4.00 GiB are read from a revision at once");
}

TEST_CASE("nothing that a repository configures is run") {
  const GitFolder git;
  const std::string pwned = git.path() + "/pwned";
  const std::string touch = "touch " + pwned;
  git.put("f.txt", "as it was recorded\r\n");
  const std::string first = git.commit();
  git.put(".gitattributes", "*.txt filter=x diff=x text eol=lf ident\n");
  git.put("f.txt", "2");
  git.commit();
  git.put("hooks/script", "#!/bin/sh\n" + touch + "\n");
  git.run(
      "chmod +x hooks/script; cd hooks; for hook in post-checkout "
      "post-index-change reference-transaction pre-auto-gc post-merge "
      "pre-commit fsmonitor-watchman; do ln -s script $hook; done");
  for (const std::string key :
       {"filter.x.clean", "filter.x.smudge", "filter.x.process",
        "diff.x.textconv", "diff.x.command", "diff.external", "core.fsmonitor",
        "core.pager", "pager.rev-parse", "pager.cat-file", "core.editor",
        "core.sshCommand", "core.askPass", "credential.helper", "gpg.program",
        "core.alternateRefsCommand", "uploadpack.packObjectsHook",
        "core.gitProxy"}) {
    git.run("git config " + key + " '" + touch + "'");
  }
  for (const std::string alias : {"cat-file", "merge-base", "rev-parse"}) {
    git.run("git config alias." + alias + " '!" + touch + "'");
  }
  git.run("git config core.hooksPath '" + git.path() + "/hooks'");
  git.run(
      "git config filter.x.required true; git config protocol.ext.allow "
      "always; git config core.untrackedCache true");
  git.run("rm -f pwned");

  Checkout head(git.path());
  CHECK(head.text("f.txt") == "2");
  Checkout old(git.path(), "HEAD~1");
  CHECK(old.text("f.txt") == "as it was recorded\r\n");
  Diagnostics diags;
  const auto base =
      merge_base({"a", first}, {"b", first}, {}, old.below, diags);
  CHECK(base);
  CHECK_FALSE(resolve_revision("none", {}, old.below, diags));
  CHECK_FALSE(std::filesystem::exists(pwned));
  // The trap works: git itself falls into it.
  git.run("git -c core.fsmonitor= checkout -q -f HEAD~1 -- f.txt || true");
  CHECK(std::filesystem::exists(pwned));
}

TEST_CASE("nothing is fetched into a partial clone") {
  const GitFolder git;
  git.put("d/f", "far away");
  git.put("g", "too");
  git.commit();
  git.run(
      "git config uploadpack.allowFilter true; "
      "git config uploadpack.allowAnySHA1InWant true");
  const auto clone = [&](const Folder& folder, const std::string& filter) {
    testing::shell(folder.path(), "git clone -q -o up --no-checkout " + filter +
                                      " 'file://" + git.path() + "' c");
    return folder / "c";
  };
  const auto files = [](const std::string& path) {
    return testing::shell(path, "find .git -type f | sort");
  };
  for (const bool knows_lazy : {true, false}) {
    CAPTURE(knows_lazy);
    const Folder folder;
    const std::string path = clone(folder, "--filter=blob:none");
    const std::string before = files(path);
    Checkout head(path);
    // As a git that has never heard of it.
    if (!knows_lazy)
      head.below.variables.emplace_back("GIT_NO_LAZY_FETCH", "0");
    const std::string text = head.text("d/f");
    CHECK(text ==
          "! this partial clone does not have its contents; fetch them with "
          "`git fetch --refetch --no-filter up`");
    CHECK(head.text("d/f") == text);
    CHECK(head.text("g") == text);
    CHECK(head.text("d/f", 3) == text);
    CHECK(head.host->file_info("d/f")->size == 0);
    CHECK(head.host->list_directory("d") == std::vector<std::string>{"f"});
    CHECK(head.host->problem() == "");
    CHECK(files(path) == before);
    // What is said helps.
    testing::shell(path, "git fetch -q --refetch --no-filter up");
    Checkout after(path);
    CHECK(after.text("d/f") == "far away");
  }
  // One that lacks folders, too, cannot say what is there; it says that.
  const Folder folder;
  const std::string path = clone(folder, "--filter=tree:0");
  Checkout head(path);
  CHECK_FALSE(head.host->file_info("d/f"));
  CHECK(head.text("d/f").find("! this partial clone") == 0);
  CHECK(head.host->problem().find("this partial clone") != std::string::npos);
}

TEST_CASE("an object that is damaged or gone is told, and the others read") {
  const GitFolder git;
  git.put("good", "good");
  git.put("gone", "gone");
  git.put("bad", "bad");
  git.put("d/f", "f");
  git.commit();
  const auto object = [&](const std::string& path) {
    const std::string id = git.run("git rev-parse HEAD:" + path);
    return git.path() + "/.git/objects/" + id.substr(0, 2) + "/" + id.substr(2);
  };
  std::filesystem::remove(object("gone"));
  std::filesystem::remove(object("d"));
  const std::string bad = object("bad");
  git.run("chmod u+w '" + bad + "'; echo nonsense > '" + bad + "'");
  Checkout head(git.path());
  CHECK(head.text("gone") ==
        "! git does not have its contents; `git fsck` shows what is damaged");
  CHECK(head.text("bad").find("! git ") == 0);
  CHECK(head.text("good") == "good");
  CHECK(head.host->problem() == "");
  CHECK(head.text("d/f").find("! git does not have") == 0);
  CHECK(head.host->problem() ==
        "the folder `d`: git does not have its contents; `git fsck` shows what "
        "is damaged");
  CHECK(head.text("good") == "good");
}

TEST_CASE("git: records of folders that git would not make are refused") {
  const std::string id(20, '\x01');
  const auto tree = [&](const std::vector<std::string>& entries) {
    std::string bytes;
    for (const std::string& entry : entries) bytes += entry + '\0' + id;
    std::string why;
    const auto parsed = parse_git_tree(bytes, 20, why);
    CHECK((parsed.has_value() == why.empty()));
    return parsed ? std::to_string(parsed->size()) : why;
  };
  CHECK(tree({}) == "0");
  CHECK(tree({"100644 b", "100755 a", "40000 c", "120000 d", "160000 e"}) ==
        "5");
  for (const std::string name : {"..", ".", ".git", "a/b", "", "/"}) {
    CHECK(tree({"100644 " + name}) ==
          "git's record of the folder has an entry `" + name +
              "`, which is not a valid file name");
  }
  CHECK(tree({"777 a"}) ==
        "git's record of the folder has an entry `a`, which is not a valid "
        "file name");
  CHECK(tree({"100644 a", "40000 a"}) ==
        "git's record of the folder has two entries `a`");
  std::string why;
  for (const std::string& bytes :
       {std::string("100644"), std::string("100644 a"),
        std::string("100644 a\0x", 10), std::string("a\0b c", 5)}) {
    why.clear();
    CHECK_FALSE(parse_git_tree(bytes, 20, why));
    CHECK(why == "git's record of the folder is damaged");
  }

  // Whatever the bytes are, what is read has names that files can have.
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string noise;
    for (uint64_t at = random() % 4 * 30; at > 0; --at) {
      constexpr std::string_view kLikely("100644 12\0/.ag\x01", 15);
      noise += kLikely[random() % kLikely.size()];
    }
    std::string ignored;
    const auto entries = parse_git_tree(noise, 2, ignored);
    for (const GitEntry& entry : entries.value_or(std::vector<GitEntry>())) {
      CHECK(entry.id.size() == 4);
      CHECK(entry.name.find_first_of(std::string("/\0", 2)) ==
            std::string::npos);
    }
  }

  // The same, where a repository holds such a thing.
  const GitFolder git;
  git.put("f", "secret");
  std::string bytes("100644 ..\0", 10);
  const std::string blob = git.run("git add f; git rev-parse :f");
  for (size_t i = 0; i < blob.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(blob.substr(i, 2), nullptr, 16));
  }
  git.put("t", bytes);
  const std::string commit = git.run(
      "git commit-tree -m x $(git hash-object -t tree -w --literally t)");
  Checkout head(git.path(), commit);
  CHECK(head.text("f").find("which is not a valid file name") !=
        std::string::npos);
  CHECK(head.host->problem().find("its root folder: ") == 0);
}

TEST_CASE("many threads read one commit") {
  const GitFolder git;
  for (int i = 0; i < 50; ++i) {
    git.put("d" + std::to_string(i % 7) + "/f" + std::to_string(i),
            std::to_string(i));
  }
  git.commit();
  Checkout head(git.path());
  std::vector<int> wrong(8, 0);
  parallel_for(8, 4, [&](int64_t piece) {
    for (int i = 0; i < 50; ++i) {
      std::string why;
      const std::string path =
          "d" + std::to_string(i % 7) + "/f" + std::to_string(i);
      const auto bytes = head.host->read_file(path, kWholeFile, why);
      const auto info = head.host->file_info(path);
      const bool fine =
          bytes && bytes->view() == std::to_string(i) && info &&
          info->size == static_cast<int64_t>(bytes->view().size());
      if (!fine) ++wrong[static_cast<size_t>(piece)];
    }
  });
  CHECK(wrong == std::vector<int>(8, 0));
  CHECK(head.started() == 2);
}

// An answer that was not read to its end would be taken for the next one.
TEST_CASE("memory that ends within an answer spoils no later one") {
  if (!kCountsAllocations) return testing::skip("a sanitizer allocates");
  const GitFolder git;
  const std::string large(100000, 'y');
  git.put("a/one", "one");
  git.put("a/two", large);
  git.commit();
  int failed = 0;
  Checkout head(git.path());
  for (int64_t n = 0; n < 10000; n += 11) {
    head.begin();
    fail_allocation(n);
    try {
      std::string why;
      head.host->read_file("a/two", kWholeFile, why);
    } catch (const std::bad_alloc&) {
    }
    if (!fail_allocation(-1)) break;
    ++failed;
    CAPTURE(n);
    CHECK(head.text("a/one") == "one");
    CHECK((head.text("a/two") == large));
    CHECK(head.host->problem() == "");
  }
  CHECK(failed > 20);
  CHECK(failed < 900);
}

TEST_CASE("a model and its rules are read out of a commit") {
  const GitFolder git;
  git.put("model/model.json", R"({"w": {"shape": [4, 4], "dtype": "f32"}})");
  git.put("rules.yaml", "rules:\n  - [w, [tp]]\n");
  git.commit();
  git.run("rm -r model rules.yaml");
  Checkout head(git.path());
  Diagnostics diags;
  const auto manifest = load_manifest("model/model.json", *head.host, diags);
  REQUIRE(manifest);
  CHECK(manifest->size() == 1);
  CHECK(read_source("rules.yaml", kWholeFile, *head.host, diags) != nullptr);
  CHECK(read_source("rule.yaml", kWholeFile, *head.host, diags) == nullptr);
  CHECK(testing::messages(diags) ==
        "SP001 cannot read `rule.yaml`: no such file in `HEAD`");
  CHECK(diags.all().front().help ==
        std::vector<std::string>{"did you mean `rules.yaml`?"});
}

}  // namespace
}  // namespace shardplan
