// SPDX-License-Identifier: Apache-2.0
#include "io/git/objects.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/checked.h"
#include "base/child_process.h"
#include "base/text.h"
#include "base/words.h"
#include "io/git/git.h"

namespace shardplan {
namespace {

constexpr int64_t kMaxFile = int64_t{4} << 30;    // same limit as pipes
constexpr int64_t kMaxTree = int64_t{256} << 20;  // millions of entries
// Files up to this size are read whole even if only a part is requested.
constexpr int64_t kSmallFile = int64_t{1} << 20;
constexpr int64_t kMaxCachedFile = int64_t{16} << 20;
constexpr int64_t kMaxCached = int64_t{256} << 20;
constexpr size_t kLongestHeader = 4096;

class BytesBefore : public Bytes {
 public:
  BytesBefore(std::shared_ptr<const Bytes> all, size_t count)
      : all_(std::move(all)), count_(count) {}
  std::string_view view() const override {
    return all_->view().substr(0, count_);
  }
  void release_before(uint64_t offset) const override {
    all_->release_before(offset);
  }

 private:
  std::shared_ptr<const Bytes> all_;
  size_t count_;
};

std::shared_ptr<const Bytes> first_bytes(std::shared_ptr<const Bytes> all,
                                         int64_t count) {
  if (count >= std::ssize(all->view())) return all;
  return std::make_shared<BytesBefore>(std::move(all), to_size(count));
}

// Sets the reason of a function that has no result.
std::nullopt_t refuse(std::string& why, std::string reason) {
  why = std::move(reason);
  return std::nullopt;
}

std::string hexadecimal(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

std::optional<GitEntryKind> kind_of(std::string_view mode) {
  if (mode == "40000" || mode == "040000") return GitEntryKind::Folder;
  if (mode == "120000") return GitEntryKind::Link;
  if (mode == "160000") return GitEntryKind::Submodule;
  if (mode.size() == 6 && mode.starts_with("100")) return GitEntryKind::File;
  return std::nullopt;
}

std::string too_large(int64_t size, int64_t most) {
  return "it is " + bytes_text(size) + "; at most " + bytes_text(most) +
         " are read from a revision at once";
}

// Returns whether git's error messages say that an object is missing.
bool says_missing(std::string_view errors) {
  return contains(errors, "could not fetch") ||
         contains(errors, "lazy fetching disabled") ||
         contains(errors, "fatal: transport '");
}

}  // namespace

std::optional<std::vector<GitEntry>> parse_git_tree(std::string_view bytes,
                                                    size_t id_size,
                                                    std::string& why) {
  // An entry consists of mode, blank, name, zero byte, id.
  std::vector<GitEntry> entries;
  while (!bytes.empty()) {
    const size_t blank = bytes.find(' ');
    const size_t zero = bytes.find('\0');
    if (zero == std::string_view::npos || blank > zero ||
        bytes.size() - zero - 1 < id_size) {
      return refuse(why, "git's record of the folder is damaged");
    }
    const auto kind = kind_of(bytes.substr(0, blank));
    GitEntry entry{std::string(bytes.substr(blank + 1, zero - blank - 1)),
                   hexadecimal(bytes.substr(zero + 1, id_size)),
                   kind.value_or(GitEntryKind::File)};
    bytes.remove_prefix(zero + 1 + id_size);
    const bool is_name = !entry.name.empty() && entry.name != "." &&
                         entry.name != ".." && entry.name != ".git" &&
                         !contains(entry.name, '/');
    if (!kind || !is_name) {
      return refuse(why, "git's record of the folder has an entry `" +
                             entry.name + "`, which is not a valid file name");
    }
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, &GitEntry::name);
  const auto twice =
      std::ranges::adjacent_find(entries, std::equal_to(), &GitEntry::name);
  if (twice == entries.end()) return entries;
  return refuse(
      why, "git's record of the folder has two entries `" + twice->name + "`");
}

std::optional<int64_t> GitObjects::size(const std::string& id,
                                        std::string& why) {
  if (const auto known = known_sizes_.find(id); known != known_sizes_.end()) {
    return known->second;
  }
  const auto header = ask(sizes_, "--batch-check", id, why);
  if (!header) return std::nullopt;
  if (header->type != "blob") {
    return refuse(why, "git stores it as a " + header->type + ", not a file");
  }
  known_sizes_[id] = header->size;
  return header->size;
}

std::shared_ptr<const Bytes> GitObjects::file(const std::string& id,
                                              int64_t limit, std::string& why) {
  const auto size = this->size(id, why);
  if (!size) return nullptr;
  const int64_t wanted = limit < 0 ? *size : std::min(limit, *size);
  const auto known = files_.find(id);
  if (known != files_.end() && wanted <= std::ssize(known->second->view())) {
    return first_bytes(known->second, wanted);
  }
  if (wanted > kMaxFile) {
    why = too_large(*size, kMaxFile);
    return nullptr;
  }
  if (*size > kSmallFile && wanted < *size) {
    return cache(id, beginning(id, wanted, why));
  }
  auto text = contents(id, "blob", kMaxFile, why);
  if (!text) return nullptr;
  return first_bytes(cache(id, bytes_of(std::move(*text))), wanted);
}

std::shared_ptr<const std::vector<GitEntry>> GitObjects::folder(
    const std::string& name, std::string& why) {
  if (const auto known = folders_.find(name); known != folders_.end()) {
    return known->second;
  }
  const size_t digits = std::min(name.find('^'), name.size());
  const auto bytes = contents(name, "tree", kMaxTree, why);
  if (!bytes) return nullptr;
  auto entries = parse_git_tree(*bytes, digits / 2, why);
  if (!entries) return nullptr;
  return folders_[name] =
             std::make_shared<const std::vector<GitEntry>>(std::move(*entries));
}

// Asks for an object and returns its header. On failure, `git` is null and must
// be started again, or it waits for the next question.
std::optional<GitObjects::Header> GitObjects::ask(Process& git,
                                                  const char* mode,
                                                  const std::string& name,
                                                  std::string& why) {
  const auto known = missing_.find(name);
  if (known != missing_.end()) return refuse(why, known->second);
  if (!why_stopped_.empty()) return refuse(why, why_stopped_);
  // `git` gets the process back only after the whole answer was understood.
  Process asked = std::move(git);
  if (asked == nullptr) asked = start_git({"cat-file", mode}, host_, why);
  if (asked == nullptr) return refuse(why, "git cannot be started: " + why);
  std::optional<std::string> line;
  if (asked->write(name + "\n")) line = asked->read_line(kLongestHeader);
  if (!line) return refuse(why, ended(asked, name));
  if (*line == name + " missing") {
    git = std::move(asked);
    return refuse(why, missing(name));
  }
  const size_t first = std::min(line->find(' '), line->size());
  const size_t second = line->find(' ', first + 1);
  Header header;
  if (second != std::string::npos) {
    header.id = line->substr(0, first);
    header.type = line->substr(first + 1, second - first - 1);
    header.size =
        parse_integer(std::string_view(*line).substr(second + 1)).value_or(-1);
    if (header.size >= 0 && is_object_id(header.id)) {
      git = std::move(asked);
      return header;
    }
  }
  return refuse(why, "git gave an unexpected answer: " + line->substr(0, 400));
}

// Returns the whole object; an object above `most` bytes is an error.
std::optional<std::string> GitObjects::contents(const std::string& name,
                                                std::string_view type,
                                                int64_t most,
                                                std::string& why) {
  const auto header = ask(contents_, "--batch", name, why);
  if (!header) return std::nullopt;
  // A process whose answer was not read completely is not used again.
  Process git = std::move(contents_);
  if (header->type != type) {
    return refuse(why, "git stores it as a " + header->type + ", not a " +
                           std::string(type));
  }
  if (header->size > most) return refuse(why, too_large(header->size, most));
  std::string text;
  std::string line_end;
  if (!git->read_exactly(text, to_size(header->size)) ||
      !git->read_exactly(line_end, 1) || line_end != "\n") {
    return refuse(why, ended(git, name));
  }
  contents_ = std::move(git);
  return text;
}

std::shared_ptr<const Bytes> GitObjects::beginning(const std::string& id,
                                                   int64_t count,
                                                   std::string& why) {
  Process git = start_git({"cat-file", "blob", id}, host_, why);
  if (git == nullptr) {
    why = "git cannot be started: " + why;
    return nullptr;
  }
  std::string text;
  if (git->read_exactly(text, to_size(count))) {
    return bytes_of(std::move(text));
  }
  why = ended(git, id);
  return nullptr;
}

// Returns why git ended in the middle of an answer.
std::string GitObjects::ended(Process& git, const std::string& name) {
  const int code = git->wait();
  const std::string errors = git->errors(size_t{64} * 1024);
  git.reset();
  // The next question would wait just as long.
  if (is_stalled(errors)) {
    return why_stopped_ = "git was stopped: " + git_words(errors);
  }
  if (says_missing(errors)) return missing(name);
  const std::string words = git_words(errors);
  return "git exited with code " + std::to_string(code) +
         (words.empty() ? " and printed nothing" : ": " + words);
}

// Returns why an object is missing, and which command fetches it.
std::string GitObjects::missing(const std::string& id) {
  if (!to_fetch_) {
    // The key is remote.<name>.promisor or remote.<name>.partialclonefilter.
    constexpr std::string_view kHead = "remote.";
    const auto keys =
        git_output({"config", "-z", "--name-only", "--get-regexp",
                    R"(^remote\..*\.(promisor|partialclonefilter)$)"},
                   host_);
    to_fetch_ = "";
    if (keys && keys->starts_with(kHead)) {
      const std::string key = keys->substr(0, keys->find('\0'));
      const size_t end = std::max(key.rfind('.'), kHead.size());
      to_fetch_ = key.substr(kHead.size(), end - kHead.size());
    }
  }
  std::string& why = missing_[id];
  why = to_fetch_->empty()
            ? "git does not have its contents; `git fsck` shows what is damaged"
            : "this partial clone does not have its contents; fetch them with "
              "`git fetch --refetch --no-filter " +
                  shell_word(*to_fetch_) + "`";
  return why;
}

std::shared_ptr<const Bytes> GitObjects::cache(
    const std::string& id, std::shared_ptr<const Bytes> bytes) {
  if (bytes == nullptr) return bytes;
  const auto size = std::ssize(bytes->view());
  if (size > kMaxCachedFile || cached_bytes_ + size > kMaxCached) return bytes;
  cached_bytes_ += size;
  files_[id] = bytes;
  return bytes;
}

}  // namespace shardplan
