// SPDX-License-Identifier: Apache-2.0
#include "io/git/repository.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/real_host.h"
#include "io/git/git.h"
#include "tests/support/git_folder.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"

namespace shardplan {
namespace {

using testing::Folder;
using testing::GitFolder;
using testing::HostAt;
using testing::messages;

Host& real_host() {
  static const auto host = make_real_host();
  return *host;
}

// The diagnostics with their facts and helps, a line each.
std::string in_full(const Diagnostics& diags) {
  std::string text = messages(diags);
  for (const Diagnostic& diagnostic : diags.all()) {
    for (const std::string& fact : diagnostic.facts) text += "\nfact: " + fact;
    for (const std::string& help : diagnostic.help) text += "\nhelp: " + help;
  }
  return text;
}

std::string refusal_of_find(Host& host) {
  Diagnostics diags;
  CHECK_FALSE(find_git_repository(host, diags));
  return in_full(diags);
}

std::string refusal_of(const std::string& revision, Host& host) {
  Diagnostics diags;
  const auto commit = resolve_revision(revision, {}, host, diags);
  CHECK_MESSAGE(!commit, revision);
  return in_full(diags);
}

std::string id_of(const std::string& revision, Host& host) {
  Diagnostics diags;
  const auto commit = resolve_revision(revision, {}, host, diags);
  CHECK(messages(diags) == "");
  REQUIRE(commit);
  CHECK(commit->name == revision);
  return commit->id;
}

bool has(const std::string& text, const std::string& words) {
  const bool found = text.find(words) != std::string::npos;
  CHECK_MESSAGE(found, text << "\nlacks: " << words);
  return found;
}

TEST_CASE("a repository is found from any folder of its checkout") {
  const GitFolder git;
  git.put("a b/c\nd/file", "x");
  for (const std::string prefix : {"", "a b/", "a b/c\nd/"}) {
    CAPTURE(prefix);
    HostAt host(real_host(), git.path() + "/" + prefix);
    Diagnostics diags;
    const auto found = find_git_repository(host, diags);
    CHECK(messages(diags) == "");
    REQUIRE(found);
    CHECK(found->root == git.path());
    CHECK(found->prefix == prefix);
  }
}

TEST_CASE("a checkout of its own folder belongs to its repository") {
  const GitFolder git;
  git.put("f", "x");
  git.commit();
  const Folder folder;
  const std::string path = std::filesystem::canonical(folder.path());
  git.run("git worktree add -q -b other '" + path + "/w'");
  HostAt host(real_host(), path + "/w");
  Diagnostics diags;
  const auto found = find_git_repository(host, diags);
  REQUIRE(found);
  CHECK(found->root == path + "/w");
  CHECK(id_of("other", host) == id_of("main", host));
}

TEST_CASE("git: no git, no repository, no checkout, no trust") {
  testing::MemoryHost memory;
  CHECK(refusal_of_find(memory) ==
        "SP001 `git` cannot be started: no programs here\n"
        "fact: revisions are read with the installed git\n"
        "help: install git, or give two folders instead of revisions");

  const Folder folder;
  HostAt host(real_host(), std::filesystem::canonical(folder.path()));
  host.variables.emplace_back("PATH", "/nonexistent");
  has(refusal_of_find(host), "SP001 `git` cannot be started: no such program");

  HostAt nowhere(real_host(), std::filesystem::canonical(folder.path()));
  nowhere.variables.emplace_back("GIT_CEILING_DIRECTORIES", "/");
  std::string text = refusal_of_find(nowhere);
  has(text, "SP010 `" + nowhere.folder + "` is not in a git repository");
  has(text, "fact: git says: not a git repository");
  has(text, "help: ");
  text = refusal_of("main", nowhere);
  has(text, "SP010 `" + nowhere.folder + "` is not in a git repository");

  HostAt gone(real_host(), folder / "gone");
  text = refusal_of_find(gone);
  has(text, "SP001 git cannot read the repository of");
  has(text, "fact: git says: cannot change to '" + gone.folder + "'");

  const GitFolder git;
  HostAt inside(real_host(), git.path() + "/.git");
  has(refusal_of_find(inside), "is not in a repository checkout");
  const GitFolder bare("--bare");
  HostAt at_bare(real_host(), bare.path());
  text = refusal_of_find(at_bare);
  has(text, "SP010 `" + bare.path() + "` is not in a repository checkout");

  HostAt others(real_host(), git.path());
  others.variables.emplace_back("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
  for (const bool resolving : {false, true}) {
    text = resolving ? refusal_of("HEAD", others) : refusal_of_find(others);
    has(text, "SP001 git does not trust the repository of `" + git.path() +
                  "`, which belongs to another user");
    has(text, "fact: git says: detected dubious ownership");
    has(text, "help: run `git config --global --add safe.directory " +
                  git.path() + "` to let git read it");
  }
}

TEST_CASE("whatever git reads as a commit is one") {
  const GitFolder git;
  git.put("f", "1");
  const std::string first = git.commit();
  git.put("f", "2");
  const std::string second = git.commit();
  git.run("git tag light HEAD~1; git tag -a -m x heavy; git branch b/c HEAD~1");
  HostAt host(real_host(), git.path());
  CHECK(first.size() == 40);
  for (const std::string name :
       {"HEAD~1", "HEAD^", "light", "b/c", "refs/heads/b/c", "main@{1}"}) {
    CHECK(id_of(name, host) == first);
  }
  for (const std::string name : {"HEAD", "main", "heavy", "@", ":/x"}) {
    CHECK(id_of(name, host) == second);
  }
  CHECK(id_of(first, host) == first);
  CHECK(id_of(first.substr(0, 10), host) == first);
}

TEST_CASE("ids of 64 digits are ids") {
  const GitFolder git("--object-format=sha256");
  git.put("f", "1");
  const std::string id = git.commit();
  CHECK(id.size() == 64);
  HostAt host(real_host(), git.path());
  CHECK(id_of("main", host) == id);
}

TEST_CASE("git: a revision that is none, with one of a similar name") {
  const GitFolder git;
  git.put("f", "1");
  HostAt host(real_host(), git.path());
  has(refusal_of("HEAD", host), "help: the branch has no commit yet: make one");
  const std::string id = git.commit();
  git.run(
      "git branch release-2; git tag v1.0; "
      "git update-ref refs/remotes/origin/topic HEAD");
  CHECK(refusal_of("relaese-2", host) ==
        "SP010 `relaese-2` is not a commit in this repository\n"
        "fact: git says: Needed a single revision\n"
        "help: did you mean `release-2`?\n"
        "help: run `git fetch` to get new branches and tags");
  has(refusal_of("v1.1", host), "did you mean `v1.0`?");
  has(refusal_of("topic", host), "did you mean `origin/topic`?");
  has(refusal_of("main..HEAD", host), "SP010 `main..HEAD` is not a commit");
  has(refusal_of("HEAD@{99}", host), "git says: log for 'HEAD' only has");
  for (const std::string none : {"", "^main", "-x", "--all", "--git-dir", "-h",
                                 "--output=pwned", "--verify"}) {
    has(refusal_of(none, host), "SP010 `" + none + "` cannot name a commit\n");
  }
  CHECK_FALSE(std::filesystem::exists(git.path() + "/pwned"));
  has(refusal_of("HEAD:f", host), "SP010 `HEAD:f` is a blob object, not a");
  has(refusal_of("HEAD^{tree}", host), "is a tree object, not a commit");
  const std::string missing(40, '1');
  const std::string text = refusal_of(missing, host);
  has(text, "SP001 this clone does not have the commit `" + missing + "`");
  has(text,
      "help: run `git fetch origin " + missing + "` if the remote has it");
}

TEST_CASE("git: a name that two commits have is refused") {
  const GitFolder git;
  const std::string first = git.commit();
  const std::string second = git.commit();
  REQUIRE(first != second);
  git.run("git tag v1 " + first + "; git branch v1 " + second);
  HostAt host(real_host(), git.path());
  CHECK(refusal_of("v1", host) ==
        "SP010 `v1` may name more than one commit\n"
        "fact: git says: refname 'v1' is ambiguous.\n"
        "help: write `refs/heads/v1` for the branch, `refs/tags/v1` for the "
        "tag, or a commit id");
  CHECK(id_of("refs/heads/v1", host) == second);
  CHECK(id_of("refs/tags/v1", host) == first);
  has(refusal_of("main@{2001-01-01}", host), "only goes back to");
  // Though a user has turned the warning off.
  git.run("git config core.warnAmbiguousRefs false");
  has(refusal_of("v1", host), "may name more than one commit");
}

TEST_CASE("the merge base is where two histories part") {
  const GitFolder git;
  const std::string base = git.commit();
  git.run("git checkout -q -b topic");
  git.put("t", "1");
  git.commit();
  git.run("git checkout -q main");
  git.put("m", "1");
  git.commit();
  git.run("git checkout -q --orphan alone");
  git.commit();
  HostAt host(real_host(), git.path());
  const auto commit = [&](const std::string& name) {
    return GitCommit{name, id_of(name, host)};
  };
  Diagnostics diags;
  const auto found =
      merge_base(commit("main"), commit("topic"), {}, host, diags);
  REQUIRE(found);
  CHECK(found->id == base);
  CHECK(found->name == "the merge base of main and topic");
  CHECK_FALSE(merge_base(commit("main"), commit("alone"), {}, host, diags));
  CHECK(in_full(diags) ==
        "SP010 `main` and `alone` have no common ancestor\n"
        "help: `main..alone` compares them directly");
}

TEST_CASE("git: a shallow clone says how to get what it lacks") {
  const GitFolder git;
  const std::string first = git.commit();
  git.run("git checkout -q -b topic");
  git.put("t", "1");
  git.commit();
  git.run("git checkout -q main");
  git.put("m", "1");
  git.commit();
  const Folder folder;
  testing::shell(folder.path(),
                 "git clone -q --depth 1 --no-single-branch "
                 "'file://" +
                     git.path() + "' c");
  HostAt host(real_host(), folder / "c");
  const auto explained = [](const std::string& text) {
    has(text, "fact: this clone is shallow: it has only the latest commits");
    has(text,
        "help: run `git fetch --unshallow`; in a workflow, set `fetch-depth: "
        "0` for actions/checkout");
  };
  std::string text = refusal_of(first, host);
  has(text, "SP001 this clone does not have the commit `" + first + "`");
  explained(text);
  text = refusal_of("HEAD~1", host);
  has(text, "SP010 `HEAD~1` is not a commit in this repository");
  explained(text);
  Diagnostics diags;
  const GitCommit main{"main", id_of("main", host)};
  const GitCommit topic{"topic", id_of("origin/topic", host)};
  CHECK_FALSE(merge_base(main, topic, {}, host, diags));
  text = in_full(diags);
  has(text,
      "SP001 this clone does not have the common ancestor of `main` and "
      "`topic`");
  explained(text);
  // What is said helps.
  testing::shell(folder / "c", "git fetch -q --unshallow");
  Diagnostics after;
  const auto base = merge_base(main, topic, {}, host, after);
  REQUIRE(base);
  CHECK(base->id == first);
}

TEST_CASE("replacements of commits are passed over") {
  const GitFolder git;
  const std::string first = git.commit();
  const std::string second = git.commit();
  git.run("git checkout -q --orphan alone");
  const std::string alone = git.commit();
  git.run("git replace " + second + " " + alone);
  HostAt host(real_host(), git.path());
  Diagnostics diags;
  const auto base = merge_base({"a", first}, {"b", second}, {}, host, diags);
  REQUIRE(base);
  CHECK(base->id == first);
}

TEST_CASE("git: a program of that name that is none is not a crash") {
  struct Nonsense : ChildProcess {
    bool write(std::string_view) override { return false; }
    std::optional<std::string> read_line(size_t) override { return {}; }
    bool read_exactly(std::string&, size_t) override { return false; }
    std::string read_all(size_t) override { return "usage: git\n"; }
    int wait() override { return code; }
    std::string errors(size_t) override { return ""; }
    int code = 0;
  };
  testing::MemoryHost host;
  int code = 0;
  host.programs = [&](const std::vector<std::string>& command, std::string&) {
    CHECK(command.front() == "git");
    auto child = std::make_unique<Nonsense>();
    child->code = code;
    return child;
  };
  has(refusal_of("main", host), "SP010 `main` is not a commit");
  Diagnostics diags;
  CHECK_FALSE(merge_base({"a", "1"}, {"b", "2"}, {}, host, diags));
  code = 77;
  has(refusal_of_find(host), "git exited with code 77 and printed nothing");
}

TEST_CASE("words of git, ids and words of a shell") {
  CHECK(git_words("warning: a\nhint: b\n\nfatal: c\nfatal: d\n") == "c");
  CHECK(git_words("error: " + std::string(1000, 'x')).size() == 400);
  CHECK(git_words("") == "");
  CHECK(git_words("warning: only\n") == "");
  CHECK(is_object_id(std::string(40, 'a')));
  CHECK(is_object_id(std::string(64, '0')));
  CHECK_FALSE(is_object_id(std::string(41, 'a')));
  CHECK_FALSE(is_object_id(std::string(40, 'A')));
  CHECK_FALSE(is_object_id("^" + std::string(39, 'a')));
  CHECK(shell_word("a/b-c.d") == "a/b-c.d");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("it's $x") == "'it'\\''s $x'");
}

}  // namespace
}  // namespace shardplan
