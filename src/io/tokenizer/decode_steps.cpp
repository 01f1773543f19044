#include "io/tokenizer/decode_steps.h"

#include <optional>

#include "io/tokenizer/byte_level.h"
#include "io/tokenizer/unicode.h"

namespace switchyard {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";
constexpr size_t kByteTokenLength = 6;  // "<0x41>"

std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != kByteTokenLength || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = 16 * value + digit;
  }
  return static_cast<char>(value);
}

// Appends the bytes that `token` spells in the byte alphabet; false when it is not written in it.
bool append_bytes(std::string_view token, std::string& bytes) {
  const size_t size_before = bytes.size();
  for (size_t i = 0; i < token.size();) {
    const auto byte = char_to_byte(next_char(token, i));
    if (!byte) {
      bytes.resize(size_before);
      return false;
    }
    bytes += static_cast<char>(*byte);
  }
  return true;
}

}  // namespace

void JoinWithSpaces::separate() {
  if (!first_ && !inside_) next().text(" ");
  first_ = false;
  inside_ = true;
}

void JoinWithSpaces::text(std::string_view fragment) {
  separate();
  next().text(fragment);
}

void JoinWithSpaces::end_token() {
  separate();
  inside_ = false;
  next().end_token();
}

void ByteLevelStep::end_token() {
  if (!append_bytes(token_, pending_)) pending_ += token_;
  token_.clear();
  const size_t complete = complete_utf8_length(pending_);
  std::string text;
  append_utf8_lossy(std::string_view(pending_).substr(0, complete), text);
  pending_.erase(0, complete);
  next().text(text);
}

void ByteLevelStep::finish() {
  std::string text;
  append_utf8_lossy(pending_, text);
  next().text(text);
  next().end_token();
  next().finish();
}

void ByteFallbackStep::text(std::string_view fragment) {
  if (passing_) return next().text(fragment);
  token_ += fragment;
  if (token_.size() <= kByteTokenLength) return;
  flush_run();
  next().text(token_);
  passing_ = true;
}

void ByteFallbackStep::end_token() {
  const auto byte = passing_ ? std::nullopt : byte_of_token(token_);
  if (byte) {
    run_ += *byte;
  } else {
    if (!passing_) {
      flush_run();
      next().text(token_);
    }
    next().end_token();
  }
  passing_ = false;
  token_.clear();
}

void ByteFallbackStep::flush_run() {
  if (run_.empty()) return;
  if (first_invalid_utf8(run_) == run_.size()) {
    next().text(run_);
    next().end_token();
  } else {
    for (size_t i = 0; i < run_.size(); ++i) {
      next().text(kReplacementCharacter);
      next().end_token();
    }
  }
  run_.clear();
}

void ByteFallbackStep::finish() {
  flush_run();
  next().finish();
}

void FuseStep::finish() {
  next().end_token();
  next().finish();
}

void StripStep::release(int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    append_char(content_, text);
  next().text(text);
}

void StripStep::text(std::string_view fragment) {
  for (size_t i = 0; i < fragment.size();) {
    if (!at_start_ && stop_ == 0) return next().text(fragment.substr(i));
    const size_t begin = i;
    const bool strippable = next_char(fragment, i) == content_;
    if (strippable && at_start_ && stripped_ < start_) {
      ++stripped_;
      continue;
    }
    at_start_ = false;
    if (strippable) {
      held_ += 1;
      if (held_ <= stop_) continue;
      held_ -= 1;
      release(1);
    } else {
      release(held_);
      held_ = 0;
      next().text(fragment.substr(begin, i - begin));
    }
  }
}

void StripStep::end_token() {
  at_start_ = true;
  stripped_ = 0;
  held_ = 0;
  next().end_token();
}

void ReplaceStep::end_token() {
  pattern_.find_all(token_, spans_);
  for (const PatternSpan& span : spans_) {
    next().text(span.matched ? std::string_view(content_)
                             : std::string_view(token_).substr(span.begin, span.end - span.begin));
  }
  token_.clear();
  next().end_token();
}

void MetaspaceStep::text(std::string_view fragment) {
  const bool drops = first_ && metaspace_.scheme != PrependScheme::kNever;
  std::string text;
  for (size_t i = 0; i < fragment.size();) {
    const size_t begin = i;
    if (next_char(fragment, i) != metaspace_.replacement) {
      text += fragment.substr(begin, i - begin);
    } else if (!drops) {
      text += ' ';
    }
  }
  next().text(text);
}

void MetaspaceStep::end_token() {
  first_ = false;
  next().end_token();
}

}  // namespace switchyard
