// SPDX-License-Identifier: Apache-2.0
#include "syntax/python_statements.h"

#include <algorithm>
#include <utility>

namespace shardplan {

namespace {

constexpr int kMaxNesting = 100;

struct Line {
  size_t begin = 0;
  size_t end = 0;
  int64_t column = 0;
};

class StatementReader {
 public:
  explicit StatementReader(std::span<const PythonToken> tokens)
      : tokens_(tokens) {
    int depth = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const PythonToken& token = tokens[i];
      if (token.kind == PythonTokenKind::End) break;
      if (i == 0 || (token.starts_line && depth == 0)) {
        if (!lines_.empty()) lines_.back().end = i;
        const int64_t column =
            token.where.file->position(token.where.begin).column;
        lines_.push_back({i, tokens.size() - 1, column});
      }
      depth = std::max(0, depth + python_nesting(token));
    }
  }

  std::vector<PythonStatement> all() {
    std::vector<PythonStatement> statements;
    while (at_ < lines_.size()) block(0, 0, statements);
    return statements;
  }

 private:
  // Reads the lines from here on whose indentation is at least `column`.
  void block(int64_t column, int level,
             std::vector<PythonStatement>& statements) {
    while (at_ < lines_.size() && lines_[at_].column >= column) {
      const Line line = lines_[at_++];
      const size_t colon = level < kMaxNesting ? header_end(line) : line.end;
      if (colon >= line.end) {
        simple(line.begin, line.end, statements);
        continue;
      }
      PythonStatement statement{line.begin, colon, true};
      if (colon + 1 < line.end) simple(colon + 1, line.end, statement.body);
      block(line.column + 1, level + 1, statement.body);
      statement.body_end = std::max(line.end, end_of(statement.body));
      statements.push_back(std::move(statement));
    }
  }

  static size_t end_of(const std::vector<PythonStatement>& body) {
    return body.empty() ? 0 : std::max(body.back().end, body.back().body_end);
  }

  // Reads the statements of one line, which `;` separates.
  void simple(size_t begin, size_t end,
              std::vector<PythonStatement>& statements) {
    int depth = 0;
    for (size_t i = begin; i < end; ++i) {
      depth += python_nesting(tokens_[i]);
      if (depth > 0 || !tokens_[i].is(";")) continue;
      if (begin < i) statements.push_back({begin, i, false});
      begin = i + 1;
    }
    if (begin < end) statements.push_back({begin, end, false});
  }

  // Returns the colon of a compound statement, or the end of the line.
  size_t header_end(const Line& line) const {
    const PythonToken& first = tokens_[line.begin];
    const bool is_word = first.is_one_of(
        "if elif else for while try with except finally def class async");
    const bool is_match = first.is_one_of("match case") &&
                          line.end > line.begin + 2 &&
                          tokens_[line.end - 1].is(":");
    if (!is_word && !is_match) return line.end;
    int depth = 0;
    int lambdas = 0;
    for (size_t i = line.begin; i < line.end; ++i) {
      depth += python_nesting(tokens_[i]);
      if (depth > 0) continue;
      if (tokens_[i].is("lambda")) ++lambdas;
      if (tokens_[i].is(":") && lambdas-- == 0) return i;
      lambdas = std::max(0, lambdas);
    }
    return line.end;
  }

  std::span<const PythonToken> tokens_;
  std::vector<Line> lines_;
  size_t at_ = 0;
};

}  // namespace

bool opens_python_bracket(const PythonToken& token) {
  return token.is_one_of("( [ {");
}

bool closes_python_bracket(const PythonToken& token) {
  return token.is_one_of(") ] }");
}

int python_nesting(const PythonToken& token) {
  return opens_python_bracket(token)    ? 1
         : closes_python_bracket(token) ? -1
                                        : 0;
}

std::vector<size_t> past_python_brackets(std::span<const PythonToken> tokens) {
  std::vector<size_t> past(tokens.size(), tokens.size());
  std::vector<size_t> open;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (opens_python_bracket(tokens[i])) open.push_back(i);
    if (!closes_python_bracket(tokens[i]) || open.empty()) continue;
    past[open.back()] = i + 1;
    open.pop_back();
  }
  return past;
}

std::vector<PythonStatement> python_statements(
    std::span<const PythonToken> tokens) {
  return StatementReader(tokens).all();
}

}  // namespace shardplan
