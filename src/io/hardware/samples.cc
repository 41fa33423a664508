// SPDX-License-Identifier: Apache-2.0
#include "io/hardware/samples.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"

namespace shardplan {
namespace {

constexpr std::string_view kCsvHeader = "kind,dtype,m,n,k,bytes,seconds";
constexpr int64_t kMaxRanks = 1'000'000;
constexpr int64_t kMaxBytes = int64_t{1} << 50U;
constexpr int64_t kMaxMatrixSize = int64_t{1} << 31U;  // size of a dimension
constexpr double kLeastSeconds = 1e-9;
constexpr double kMaxSeconds = 1e5;

// A line, or a part of one.
struct Part {
  std::string_view text;
  uint64_t begin = 0;  // in the file
};

// Calls `take` with each line, without its line break, until it returns false.
template <typename Take>
void each_line(const SourceFile& file, const Take& take) {
  std::string_view rest = file.text();
  while (!rest.empty()) {
    const uint64_t begin = file.text().size() - rest.size();
    std::string_view line = next_line(rest);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!take(Part{line, begin})) return;
  }
}

std::vector<Part> words_of(const Part& line) {
  constexpr std::string_view kBlanks = " \t";
  std::vector<Part> words;
  for (size_t at = 0;;) {
    at = line.text.find_first_not_of(kBlanks, at);
    if (at == line.text.npos) return words;
    const size_t end =
        std::min(line.text.find_first_of(kBlanks, at), line.text.size());
    words.push_back({line.text.substr(at, end - at), line.begin + at});
    at = end;
  }
}

std::vector<Part> fields_of(const Part& line) {
  std::vector<Part> fields;
  for (size_t at = 0;;) {
    const size_t end = std::min(line.text.find(',', at), line.text.size());
    fields.push_back({line.text.substr(at, end - at), line.begin + at});
    if (end == line.text.size()) return fields;
    at = end + 1;
  }
}

void add_run(Runs& runs, double seconds, Span where) {
  if (runs.seconds.empty()) runs.where = where;
  runs.seconds.push_back(seconds);
}

// The common part of both readers.
class SampleReader {
 public:
  SampleReader(const SourceFile& file, Samples& samples, Diagnostics& diags)
      : file_(file), samples_(samples), diags_(diags) {}

  bool good() const { return errors_ == 0; }
  bool goes_on() const { return errors_ < kMaxErrors; }

 protected:
  Span span_of(const Part& word) const {
    return {&file_, word.begin, word.begin + word.text.size()};
  }
  Diagnostics::Builder fail(Span where, std::string message) {
    ++errors_;
    return diags_.error(Code::MalformedDocument, where, std::move(message));
  }

  std::optional<int64_t> whole_of(const Part& word, std::string_view what,
                                  int64_t most) {
    const auto number = parse_integer(word.text);
    if (number && *number >= 1 && *number <= most) return number;
    return fail(span_of(word),
                in_backticks(what) + " is " + in_backticks(word.text) +
                    ", not a whole number from 1 to " + count_text(most));
  }
  // `unit` is the unit of the number, in seconds.
  std::optional<double> seconds_of(const Part& word, std::string_view what,
                                   double unit) {
    const auto number = parse_real(word.text);
    const double seconds = number.value_or(0) * unit;
    if (seconds >= kLeastSeconds && seconds <= kMaxSeconds) return seconds;
    return fail(span_of(word), in_backticks(what) + " is " +
                                   in_backticks(word.text) +
                                   ", not a time from 1 ns to 100,000 s");
  }

  const SourceFile& file_;
  Samples& samples_;
  Diagnostics& diags_;

 private:
  int errors_ = 0;
};

// --- CSV

class CsvReader : SampleReader {
 public:
  using SampleReader::SampleReader;

  bool read() {
    bool has_header = false;  // the line that identified the format
    each_line(file_, [&](const Part& line) {
      if (line.text.empty() || line.text.starts_with('#')) return true;
      if (std::exchange(has_header, true)) read_row(line);
      return goes_on();
    });
    return good();
  }

 private:
  enum Field : size_t { kKind, kDtype, kM, kN, kK, kBytes, kSeconds, kFields };

  // Checks that the fields that this kind of row does not have are empty.
  bool has_only(const std::vector<Part>& fields,
                std::initializer_list<Field> wanted) {
    for (const Field i : {kDtype, kM, kN, kK, kBytes}) {
      if (contains(wanted, i) || fields[i].text.empty()) continue;
      fail(span_of(fields[i]),
           "a row of " + in_backticks(fields[kKind].text) + " must leave " +
               in_backticks(fields_of({kCsvHeader})[i].text) + " empty");
      return false;
    }
    return true;
  }

  void read_row(const Part& line) {
    const std::vector<Part> fields = fields_of(line);
    if (fields.size() != kFields) {
      fail(span_of(line),
           "a row has " + plural(std::ssize(fields), "field") + ", not 7")
          .fact("the fields are " + std::string(kCsvHeader));
      return;
    }
    const std::string_view kind = fields[kKind].text;
    if (kind == "product") {
      read_product(fields);
    } else if (kind == "copy" || kind == "to-host" || kind == "from-host") {
      read_copy(fields, std::string(kind));
    } else if (kind == "kernel-start" || kind == "launch") {
      if (!has_only(fields, {})) return;
      const auto seconds = seconds_of(fields[kSeconds], "seconds", 1);
      if (!seconds) return;
      add_run(kind == "launch" ? samples_.launches : samples_.kernel_starts,
              *seconds, span_of(fields[kSeconds]));
    } else {
      fail(span_of(fields[kKind]), "unknown kind " + in_backticks(kind))
          .help(
              "use `product`, `copy`, `to-host`, `from-host`, `kernel-start` "
              "or `launch`");
    }
  }

  void read_product(const std::vector<Part>& fields) {
    if (!has_only(fields, {kDtype, kM, kN, kK})) return;
    const auto found = std::ranges::find(kPrecisionNames, fields[kDtype].text);
    if (found == kPrecisionNames.end()) {
      fail(span_of(fields[kDtype]),
           "unknown dtype " + in_backticks(fields[kDtype].text))
          .help("known dtypes: " +
                quoted_names(std::vector<std::string>(kPrecisionNames.begin(),
                                                      kPrecisionNames.end())));
      return;
    }
    const auto m = whole_of(fields[kM], "m", kMaxMatrixSize);
    const auto n = whole_of(fields[kN], "n", kMaxMatrixSize);
    const auto k = whole_of(fields[kK], "k", kMaxMatrixSize);
    const auto seconds = seconds_of(fields[kSeconds], "seconds", 1);
    if (!m || !n || !k || !seconds) return;
    const auto precision =
        static_cast<Precision>(found - kPrecisionNames.begin());
    add_run(samples_.products[precision][{*m, *n, *k}], *seconds,
            span_of(fields[kSeconds]));
  }

  void read_copy(const std::vector<Part>& fields, const std::string& kind) {
    if (!has_only(fields, {kBytes})) return;
    const auto bytes = whole_of(fields[kBytes], "bytes", kMaxBytes);
    const auto seconds = seconds_of(fields[kSeconds], "seconds", 1);
    if (!bytes || !seconds) return;
    Runs& runs = kind == "copy" ? samples_.copies[*bytes]
                                : samples_.host_copies[{kind, *bytes}];
    add_run(runs, *seconds, span_of(fields[kSeconds]));
  }
};

// --- nccl-tests

// The programs of nccl-tests, and the names of their collectives here.
const std::map<std::string_view, std::string_view> kNcclPrograms = {
    {"all_reduce", "all-reduce"},
    {"all_gather", "all-gather"},
    {"reduce_scatter", "reduce-scatter"},
    {"alltoall", "all-to-all"},
};
// Other programs, which have no use here.
constexpr std::string_view kOtherPrograms[] = {
    "broadcast", "reduce", "sendrecv", "gather", "scatter", "hypercube"};

// Returns the program that a text names, without `_perf`: "# Collective test
// starting: all_reduce_perf", or the command as a shell echoes it. Returns ""
// if the text names none.
std::string_view program_in(std::string_view text) {
  constexpr std::string_view kEnd = "_perf";
  const size_t end = text.find(kEnd);
  if (end == text.npos) return "";
  size_t begin = end;
  while (begin > 0 && (is_letter(text[begin - 1]) || text[begin - 1] == '_')) {
    --begin;
  }
  const std::string_view name = text.substr(begin, end - begin);
  return contains(kOtherPrograms, name) || kNcclPrograms.contains(name) ? name
                                                                        : "";
}

bool is_column_line(const std::vector<Part>& words) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(words, name, &Part::text) != words.end();
  };
  return has("size") && has("count") && has("time") && has("busbw");
}

class NcclReader : SampleReader {
 public:
  using SampleReader::SampleReader;

  bool read() {
    each_line(file_, [&](const Part& line) {
      read_line(line);
      return goes_on();
    });
    end_run();
    for (const std::string_view program : unused_) {
      diags_.report(Code::Remark, {},
                    file_.name() + ": `" + std::string(program) +
                        "_perf` results are not used: no table has them");
    }
    if (good() && !has_rows_ && unused_.empty()) {
      fail({&file_, 0, 0}, "no nccl-tests measurement was found");
    }
    return good();
  }

 private:
  struct NcclRow {
    int64_t bytes = 0;
    double seconds = 0;
    double share = 0;  // bus bandwidth over algorithm bandwidth; 0: unknown
    bool sums = false;
    Span where;
  };

  void read_line(const Part& line) {
    const std::string_view program = program_in(line.text);
    if (!program.empty()) {
      // The next run begins with its name, if the program prints one.
      end_run();
      run_.program = program;
    }
    std::vector<Part> words = words_of(line);
    if (!words.empty() && words.front().text == "#") words.erase(words.begin());
    if (words.empty()) return;
    if (words.front().text == "nThread") {
      end_run();
    } else if (words.front().text == "Rank" && words.size() > 3) {
      read_rank(words);
    } else if (is_column_line(words)) {
      run_.columns.clear();
      for (const Part& word : words) run_.columns.push_back(word.text);
    } else if (is_digit(words.front().text.front()) && !run_.columns.empty()) {
      read_nccl_row(words, line);
    }
  }

  // Reads "Rank  0 Group  0 Pid 85576 on node-1 device  0 [0x8d] NVIDIA H100".
  void read_rank(const std::vector<Part>& words) {
    const auto rank = parse_integer(words[1].text);
    const auto on = std::ranges::find(words, "on", &Part::text);
    if (!rank || *rank < 0 || *rank >= kMaxRanks || on == words.end() ||
        on + 1 == words.end()) {
      fail(span_of(words.front()), "this rank line names no machine");
      return;
    }
    if (!run_.ranks.insert(*rank).second) {
      fail(span_of(words[1]), "rank " + std::to_string(*rank) +
                                  " appears twice, so this is not a single run")
          .help(
              "build nccl-tests with `make MPI=1` to run it under MPI: "
              "otherwise each process runs on its own");
      return;
    }
    run_.hosts.insert((on + 1)->text);
  }

  void read_nccl_row(const std::vector<Part>& words, const Part& line) {
    const std::vector<std::string_view>& columns = run_.columns;
    if (words.size() < columns.size()) {
      fail(span_of(line), "a row has " + plural(std::ssize(words), "field") +
                              " for " + plural(std::ssize(columns), "column"));
      return;
    }
    // Returns the first column of that name, and an empty text if there is
    // none. The first of two times is that of out-of-place operation.
    const auto cell = [&](std::string_view name) {
      const auto index = std::ranges::find(columns, name) - columns.begin();
      return index < std::ssize(columns) ? nth(words, index) : Part();
    };
    // Returns 0 for a column that is absent or not a number.
    const auto number = [&](std::string_view name) {
      return parse_real(cell(name).text).value_or(0);
    };
    // A size with fewer bytes than ranks is rounded to zero.
    if (cell("size").text == "0") return;
    const auto bytes = whole_of(cell("size"), "size", kMaxBytes);
    const auto seconds = seconds_of(cell("time"), "time", 1e-6);
    if (!bytes || !seconds) return;
    if (number("#wrong") > 0) {
      fail(span_of(cell("#wrong")), "nccl-tests found wrong values in this run")
          .help("remove the row, and check the hardware");
      return;
    }
    const double rate = number("algbw");
    const std::string_view sum = cell("redop").text;
    run_.rows.push_back({*bytes, *seconds,
                         rate >= 1 ? number("busbw") / rate : 0,
                         !sum.empty() && sum != "none", span_of(cell("time"))});
  }

  // Returns the collective of a run, or "" if it cannot be known. Older
  // programs do not print their names. Of the two that sum, an all-reduce has
  // twice the bus traffic; all-gather and all-to-all look alike.
  std::string_view kind_of_run(std::string_view program) const {
    const auto known = kNcclPrograms.find(program);
    if (known != kNcclPrograms.end()) return known->second;
    const NcclRow& last = run_.rows.back();
    if (!last.sums || last.share == 0) return "";
    const auto ranks = static_cast<double>(run_.ranks.size());
    const double one = (ranks - 1) / ranks;
    return std::abs(last.share - 2 * one) < std::abs(last.share - one)
               ? "all-reduce"
               : "reduce-scatter";
  }

  void use_run() {
    if (run_.rows.empty()) return;
    const Span first = run_.rows.front().where;
    const std::string_view program =
        run_.program.empty() ? program_in(file_.name()) : run_.program;
    if (contains(kOtherPrograms, program)) {
      unused_.insert(program);
      return;
    }
    if (run_.ranks.empty()) {
      fail(first, "the number of ranks of this run is not given")
          .help(
              "keep the lines that nccl-tests prints at the start, such as `#  "
              "Rank  0 Group  0 Pid  85576 on node-1 device  0`");
      return;
    }
    const std::string_view kind = kind_of_run(program);
    if (kind.empty()) {
      fail(first, "the collective of this run is not given")
          .help(
              "add the program's name above it, such as `# all_gather_perf`: "
              "older programs do not print it");
      return;
    }
    has_rows_ = true;
    auto& of_ranks = samples_.collectives[std::string(kind)][{
        std::ssize(run_.ranks), std::ssize(run_.hosts)}];
    for (const NcclRow& row : run_.rows) {
      add_run(of_ranks[row.bytes], row.seconds, row.where);
    }
  }

  // Ends the current run, if one has begun.
  void end_run() {
    if (run_.rows.empty() && run_.ranks.empty()) return;
    use_run();
    run_ = {};
  }

  struct {
    std::string_view program;
    std::set<int64_t> ranks;
    std::set<std::string_view> hosts;
    std::vector<std::string_view> columns;
    std::vector<NcclRow> rows;
  } run_;
  std::set<std::string_view> unused_;
  bool has_rows_ = false;
};

enum class SampleFormat : uint8_t { None, Csv, Nccl };

SampleFormat format_of(const SourceFile& file) {
  SampleFormat format = SampleFormat::None;
  bool is_first = true;
  each_line(file, [&](const Part& line) {
    if (is_column_line(words_of(line))) {
      format = SampleFormat::Nccl;
    } else if (!line.text.empty() && !line.text.starts_with('#') &&
               std::exchange(is_first, false) && line.text == kCsvHeader) {
      format = SampleFormat::Csv;
    }
    return format == SampleFormat::None;
  });
  return format;
}

}  // namespace

bool read_samples(const SourceFile& file, Samples& samples,
                  Diagnostics& diags) {
  const SampleFormat kind = format_of(file);
  if (kind == SampleFormat::Csv) return CsvReader(file, samples, diags).read();
  if (kind == SampleFormat::Nccl) {
    return NcclReader(file, samples, diags).read();
  }
  diags
      .error(Code::UnrecognizedFormat, {&file, 0, 0},
             in_backticks(file.name()) + " is not a file of measurements")
      .help("start CSV with `" + std::string(kCsvHeader) +
            "`, as `scripts/measure-gpu` does; keep the column line of "
            "nccl-tests output, `size count type ..`");
  return false;
}

}  // namespace shardplan
