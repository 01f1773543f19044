// What every operation of one rendering needs: the place for errors, and the budget that bounds its work and
// memory. Values are made here so that none escapes the budget.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jinja/jinja.h"
#include "jinja/value.h"

namespace switchyard::jinja {

inline constexpr int kMaxContainerDepth = 100;

class Runtime {
 public:
  Runtime(const std::string& where, const RenderOptions& options) : where_(where), options_(options) {}

  const RenderOptions& options() const { return options_; }

  // Throws Error "<where>: line N: <message>".
  [[noreturn]] void fail(const std::string& message) const;

  // Uses up `steps` of the budget; throws when it is gone.
  void charge(int64_t steps);
  // Steps for looking at or copying `bytes` of text.
  void charge_bytes(size_t bytes) { charge(1 + static_cast<int64_t>(bytes / 16)); }

  // Throws if a string of `bytes` would be over the limit; call it before making one.
  void check_string(int64_t bytes) const;

  Value make_text(Text text);
  Value make_text(std::string_view from_template) { return make_text(Text::from_template(from_template)); }
  Value make_sequence(SequenceKind kind, std::vector<Value> items);
  Value make_list(std::vector<Value> items) { return make_sequence(SequenceKind::kList, std::move(items)); }
  Value make_texts(std::vector<Text> texts);  // a list
  Value make_tuple(Value a, Value b);
  Value make_dict(std::vector<Dict::Entry> entries);

  // Statements, expressions, macro calls and nested values being walked; sets the line for errors meanwhile.
  class Frame {
   public:
    Frame(Runtime& runtime, int line);
    explicit Frame(Runtime& runtime) : Frame(runtime, runtime.line_) {}
    ~Frame();
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Runtime& runtime_;
    int outer_line_;
  };

 private:
  void check_data(const Value& value) const;

  const std::string& where_;
  const RenderOptions& options_;
  int64_t steps_ = 0;
  int depth_ = 0;
  int line_ = 1;
};

}  // namespace switchyard::jinja
