// The steps that a decoder consists of; see DecodeStep for how they are chained.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/decoder.h"
#include "io/tokenizer/metaspace.h"
#include "io/tokenizer/pattern.h"

namespace switchyard {

// Without a decoder: a space between tokens.
class JoinWithSpaces : public DecodeStep {
 public:
  void text(std::string_view fragment) override;
  void end_token() override;

 private:
  void separate();
  bool first_ = true;
  bool inside_ = false;
};

// Byte alphabet -> bytes, all tokens joined. A token with a character outside the alphabet stands for its own
// UTF-8 bytes. Ill-formed UTF-8 becomes U+FFFD; a character that is not complete yet is held back.
class ByteLevelStep : public DecodeStep {
 public:
  void text(std::string_view fragment) override { token_ += fragment; }
  void end_token() override;
  void finish() override;

 private:
  std::string token_;
  std::string pending_;  // the beginning of a character
};

// Runs of tokens <0x00> to <0xFF> -> the text of these bytes, or one U+FFFD for each when a run as a whole is
// not valid UTF-8. A run is therefore held back until another token ends it.
class ByteFallbackStep : public DecodeStep {
 public:
  void text(std::string_view fragment) override;
  void end_token() override;
  void finish() override;

 private:
  void flush_run();
  std::string token_;     // as long as it may still be a byte
  bool passing_ = false;  // the current token is too long to be a byte
  std::string run_;
};

// Joins all tokens.
class FuseStep : public DecodeStep {
 public:
  void text(std::string_view fragment) override { next().text(fragment); }
  void end_token() override {}
  void finish() override;
};

// Takes up to `start` times the character `content` off the beginning of each token, up to `stop` off the
// end.
class StripStep : public DecodeStep {
 public:
  StripStep(char32_t content, int64_t start, int64_t stop) : content_(content), start_(start), stop_(stop) {}
  void text(std::string_view fragment) override;
  void end_token() override;

 private:
  void release(int64_t count);
  char32_t content_;
  int64_t start_;
  int64_t stop_;
  bool at_start_ = true;
  int64_t stripped_ = 0;
  int64_t held_ = 0;  // copies of `content` that may turn out to be the end
};

// Replaces matches inside each token.
class ReplaceStep : public DecodeStep {
 public:
  ReplaceStep(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void text(std::string_view fragment) override { token_ += fragment; }
  void end_token() override;

 private:
  Pattern pattern_;
  std::string content_;
  std::string token_;
  std::vector<PatternSpan> spans_;
};

// The replacement character -> a space, or nothing in the first token when one was prepended.
class MetaspaceStep : public DecodeStep {
 public:
  explicit MetaspaceStep(const Metaspace& metaspace) : metaspace_(metaspace) {}
  void text(std::string_view fragment) override;
  void end_token() override;

 private:
  Metaspace metaspace_;
  bool first_ = true;
};

}  // namespace switchyard
