// SPDX-License-Identifier: Apache-2.0
#include "io/git/repository.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/git/git.h"

namespace shardplan {
namespace {

bool says(const GitAnswer& answer, std::string_view words) {
  return contains(answer.errors, words);
}

std::string in_words(const GitAnswer& answer) {
  const std::string words = git_words(answer.errors);
  return words.empty() ? "git exited with code " + std::to_string(answer.code) +
                             " and printed nothing"
                       : "git says: " + words;
}

// Returns the folder that git asks to declare safe, if it names one.
std::string distrusted_folder(const GitAnswer& answer, Host& host) {
  constexpr std::string_view kCommand = "--add safe.directory ";
  const size_t at = answer.errors.find(kCommand);
  if (at == std::string::npos) return shell_word(host.working_directory());
  const size_t begin = at + kCommand.size();
  return answer.errors.substr(begin, answer.errors.find('\n', begin) - begin);
}

// Reports the failures that any command may have. Callers may return the
// Builder, which converts to std::nullopt.
Diagnostics::Builder report_refusal(const GitAnswer& answer, Host& host,
                                    Diagnostics& diags) {
  const std::string here = "`" + host.working_directory() + "`";
  if (says(answer, "dubious ownership") || says(answer, "unsafe repository")) {
    return diags
        .error(Code::UnreadableFile, {},
               "git does not trust the repository of " + here +
                   ", which belongs to another user")
        .fact(in_words(answer))
        .help("run `git config --global --add safe.directory " +
              distrusted_folder(answer, host) + "` to let git read it");
  }
  if (says(answer, "not a git repository")) {
    return diags.error(Code::Usage, {}, here + " is not in a git repository")
        .fact(in_words(answer))
        .help(
            "revisions come from the current directory's repository; two "
            "folders need no repository");
  }
  if (says(answer, "must be run in a work tree") ||
      says(answer, "cannot use bare repository")) {
    return diags
        .error(Code::Usage, {}, here + " is not in a repository checkout")
        .fact(in_words(answer))
        .help("run it inside a checkout");
  }
  return diags
      .error(Code::UnreadableFile, {},
             "git cannot read the repository of " + here)
      .fact(in_words(answer));
}

// Returns what `git rev-parse` prints; nullopt, with the reason reported, on
// failure.
std::optional<std::string> rev_parse(const std::string& question, Host& host,
                                     Diagnostics& diags) {
  const auto answer = run_git({"rev-parse", question}, host, diags);
  if (!answer) return std::nullopt;
  if (answer->code != 0) return report_refusal(*answer, host, diags);
  return answer->out;
}

bool is_shallow(Host& host) {
  return git_output({"rev-parse", "--is-shallow-repository"}, host) == "true";
}

void explain_shallow(Diagnostics::Builder& report) {
  report.fact("this clone is shallow: it has only the latest commits")
      .help(
          "run `git fetch --unshallow`; in a workflow, set `fetch-depth: 0` "
          "for actions/checkout");
}

// Returns the names of branches and tags, as people write them.
std::vector<std::string> known_revisions(Host& host) {
  const std::string all =
      git_output({"for-each-ref", "--count=20000", "--format=%(refname)",
                  "refs/heads", "refs/tags", "refs/remotes"},
                 host)
          .value_or("");
  std::vector<std::string> names;
  std::string_view rest = all;
  while (!rest.empty()) {
    std::string_view name = next_line(rest);
    for (const std::string_view head :
         {"refs/heads/", "refs/tags/", "refs/remotes/"}) {
      if (!name.starts_with(head)) continue;
      name.remove_prefix(head.size());
      break;
    }
    names.emplace_back(name);
  }
  return names;
}

// Returns a branch that only the remote has in this clone, or a similar name.
std::optional<std::string> similar_revision(const std::string& revision,
                                            Host& host) {
  const std::vector<std::string> names = known_revisions(host);
  const auto remote = std::ranges::find_if(names, [&](const std::string& name) {
    return !revision.empty() && name.ends_with("/" + revision);
  });
  return remote != names.end() ? *remote : nearest(revision, names);
}

Diagnostics::Builder report_unknown(const std::string& revision,
                                    const GitAnswer& answer, Span where,
                                    Host& host, Diagnostics& diags) {
  auto report =
      diags.error(Code::Usage, where,
                  "`" + revision + "` is not a commit in this repository");
  report.fact(in_words(answer));
  if (const auto near = similar_revision(revision, host)) {
    report.help("did you mean `" + *near + "`?");
  }
  if (is_shallow(host)) {
    explain_shallow(report);
  } else if (revision == "HEAD") {
    report.help("the branch has no commit yet: make one");
  } else {
    report.help("run `git fetch` to get new branches and tags");
  }
  return report;
}

// Reports an id that is not a commit, or that this clone does not have.
Diagnostics::Builder report_no_commit(const GitCommit& named, Span where,
                                      Host& host, Diagnostics& diags) {
  if (const auto type = git_output({"cat-file", "-t", named.id}, host)) {
    return diags
        .error(Code::Usage, where,
               "`" + named.name + "` is a " + *type + " object, not a commit")
        .help("give a branch, a tag or a commit id");
  }
  auto report =
      diags.error(Code::UnreadableFile, where,
                  "this clone does not have the commit `" + named.name + "`");
  if (named.id != named.name) report.fact("its id is " + named.id);
  if (is_shallow(host)) {
    explain_shallow(report);
  } else {
    report.help("run `git fetch origin " + named.id + "` if the remote has it");
  }
  return report;
}

// Returns git's warning about an ambiguous name, or a time before the log of a
// branch begins: git then chooses one commit and only warns.
std::string doubt(const GitAnswer& answer) {
  constexpr std::string_view kWarning = "warning: ";
  std::string_view rest = answer.errors;
  while (!rest.empty()) {
    const std::string_view line = next_line(rest);
    if (line.starts_with(kWarning) && (contains(line, "is ambiguous") ||
                                       contains(line, "only goes back to"))) {
      return std::string(line.substr(kWarning.size(), 400));
    }
  }
  return "";
}

}  // namespace

std::optional<GitRepository> find_git_repository(Host& host,
                                                 Diagnostics& diags) {
  auto root = rev_parse("--show-toplevel", host, diags);
  if (!root) return std::nullopt;
  auto prefix = rev_parse("--show-prefix", host, diags);
  if (!prefix) return std::nullopt;
  return GitRepository{std::move(*root), std::move(*prefix)};
}

std::optional<GitCommit> resolve_revision(const std::string& revision,
                                          Span where, Host& host,
                                          Diagnostics& diags) {
  // `-` would begin an option, and `^` means "not these commits".
  if (revision.empty() || revision[0] == '-' || revision[0] == '^') {
    return diags
        .error(Code::Usage, where, "`" + revision + "` cannot name a commit")
        .fact("branch and tag names do not begin with `-` or `^`")
        .help("give a branch, a tag or a commit id");
  }
  const auto named = run_git({"rev-parse", "--verify", revision}, host, diags);
  if (!named) return std::nullopt;
  GitCommit commit{revision, named->out};
  if (named->code != 0 || !is_object_id(commit.id)) {
    if (says(*named, "not a git repository") ||
        says(*named, "dubious ownership") ||
        says(*named, "unsafe repository")) {
      return report_refusal(*named, host, diags);
    }
    return report_unknown(revision, *named, where, host, diags);
  }
  if (const std::string why = doubt(*named); !why.empty()) {
    return diags
        .error(Code::Usage, where,
               "`" + revision + "` may name more than one commit")
        .fact("git says: " + why)
        .help("write `refs/heads/" + revision +
              "` for the branch, `refs/tags/" + revision +
              "` for the tag, or a commit id");
  }
  const auto peeled =
      run_git({"rev-parse", "--verify", commit.id + "^{commit}"}, host, diags);
  if (!peeled) return std::nullopt;
  if (peeled->code != 0 || !is_object_id(peeled->out)) {
    return report_no_commit(commit, where, host, diags);
  }
  commit.id = peeled->out;
  return commit;
}

std::optional<GitCommit> merge_base(const GitCommit& a, const GitCommit& b,
                                    Span where, Host& host,
                                    Diagnostics& diags) {
  const auto answer = run_git({"merge-base", a.id, b.id}, host, diags);
  if (!answer) return std::nullopt;
  if (answer->code == 0 && is_object_id(answer->out)) {
    return GitCommit{"the merge base of " + a.name + " and " + b.name,
                     answer->out};
  }
  const std::string both = "`" + a.name + "` and `" + b.name + "`";
  if (is_shallow(host)) {
    auto report =
        diags.error(Code::UnreadableFile, where,
                    "this clone does not have the common ancestor of " + both);
    explain_shallow(report);
    return report;
  }
  if (answer->code != 1) return report_refusal(*answer, host, diags);
  return diags.error(Code::Usage, where, both + " have no common ancestor")
      .help("`" + a.name + ".." + b.name + "` compares them directly");
}

}  // namespace shardplan
