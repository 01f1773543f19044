// A string that remembers where each of its bytes came from: the template's own literals, or the context that
// the template was rendered with (what a user typed). Every string operation of the engine keeps that mask.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace switchyard::jinja {

struct Text {
  std::string bytes;       // valid UTF-8
  std::string from_input;  // same length: 1 where the byte came from the context, 0 where from the template

  static Text from_template(std::string_view bytes);
  static Text from_context(std::string_view bytes);

  size_t size() const { return bytes.size(); }
  bool any_from_input() const { return from_input.find('\1') != std::string::npos; }

  void append(const Text& other);
  void append(std::string_view other, bool is_input);
  void append(const Text& other, size_t begin, size_t end);  // bytes [begin, end) of other
  Text slice(size_t begin, size_t end) const;                // bytes [begin, end)
};

enum class Side { kBoth, kLeft, kRight };

// str.strip, lstrip and rstrip; `chars` is the set of characters to take away, nullptr means white space.
Text strip(const Text& text, const Text* chars, Side side);

// str.replace; count < 0 means all. An empty `old` matches before each character and at the end.
Text replace(const Text& text, const Text& old, const Text& by, int64_t count);

// str.split and rsplit; separator nullptr means runs of white space; max_split < 0 means no limit. A given
// separator must not be empty.
std::vector<Text> split(const Text& text, const Text* separator, int64_t max_split);
std::vector<Text> rsplit(const Text& text, const Text* separator, int64_t max_split);

std::vector<Text> split_lines(const Text& text, bool keep_ends);
std::vector<Text> characters(const Text& text);
Text reversed(const Text& text);

}  // namespace switchyard::jinja
