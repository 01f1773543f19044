// The "decoder" of tokenizer.json: turns token strings back into text. It always runs as a stream, so that
// text which is shown while it grows is the text of the whole sequence.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/tokenizer/json_place.h"

namespace switchyard {

// One step of a running decoder. Steps pass tokens on to the next one: each as any number of text() fragments
// of whole characters, then end_token(). A step that joins all tokens passes one token that grows to the end.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual void text(std::string_view fragment) = 0;
  virtual void end_token() = 0;
  virtual void finish() { next_->finish(); }
  void set_next(DecodeStep* next) { next_ = next; }

 protected:
  DecodeStep& next() { return *next_; }

 private:
  DecodeStep* next_ = nullptr;
};

// The decoding of one sequence.
class RunningDecoder {
 public:
  explicit RunningDecoder(std::vector<std::unique_ptr<DecodeStep>> steps);
  RunningDecoder(RunningDecoder&&) noexcept;
  RunningDecoder& operator=(RunningDecoder&&) noexcept;
  ~RunningDecoder();

  // Text that is certain after one more token; always whole characters, possibly empty.
  std::string push(std::string_view token);
  // The rest of the text. Nothing may be pushed afterwards.
  std::string finish();

 private:
  class Output;
  std::vector<std::unique_ptr<DecodeStep>> steps_;
  std::unique_ptr<Output> output_;
};

class TokenDecoder {
 public:
  // Throws Error for a type or key that is not known. `value` null: tokens are joined by spaces.
  TokenDecoder(const Json& value, const JsonPlace& place);

  RunningDecoder start() const;

 private:
  using StepFactory = std::function<std::unique_ptr<DecodeStep>()>;
  void parse(const Json& value, const JsonPlace& place);

  std::vector<StepFactory> factories_;
};

}  // namespace switchyard
