#include "jinja/text.h"

#include <algorithm>

#include "jinja/utf8.h"

namespace switchyard::jinja {
namespace {

bool in_set(const Text& text, size_t begin, size_t end, const Text* chars) {
  size_t i = begin;
  const char32_t c = utf8::decode(text.bytes, i);
  if (chars == nullptr) return utf8::is_space(c);
  // Whole sequences of valid UTF-8 never match inside another sequence, so a byte search is a character
  // search.
  return chars->bytes.find(std::string_view(text.bytes).substr(begin, end - begin)) != std::string::npos;
}

// End of the leading run of characters in the set, from `begin`.
size_t skip_forward(const Text& text, size_t begin, const Text* chars) {
  while (begin < text.size()) {
    size_t next = begin;
    utf8::decode(text.bytes, next);
    if (!in_set(text, begin, next, chars)) break;
    begin = next;
  }
  return begin;
}

size_t skip_backward(const Text& text, size_t begin, size_t end, const Text* chars) {
  while (end > begin) {
    const size_t start = utf8::previous(text.bytes, end);
    if (!in_set(text, start, end, chars)) break;
    end = start;
  }
  return end;
}

std::vector<Text> split_on_space(const Text& text, int64_t max_split) {
  std::vector<Text> parts;
  size_t at = skip_forward(text, 0, nullptr);
  while (at < text.size()) {
    size_t end = at;
    if (max_split >= 0 && static_cast<int64_t>(parts.size()) == max_split) {
      parts.push_back(text.slice(at, text.size()));
      break;
    }
    for (size_t next = end; end < text.size(); end = next) {
      if (utf8::is_space(utf8::decode(text.bytes, next))) break;
    }
    parts.push_back(text.slice(at, end));
    at = skip_forward(text, end, nullptr);
  }
  return parts;
}

std::vector<Text> rsplit_on_space(const Text& text, int64_t max_split) {
  std::vector<Text> parts;
  size_t end = skip_backward(text, 0, text.size(), nullptr);
  while (end > 0) {
    size_t begin = end;
    if (max_split >= 0 && static_cast<int64_t>(parts.size()) == max_split) {
      parts.push_back(text.slice(0, end));
      break;
    }
    while (begin > 0) {
      size_t i = utf8::previous(text.bytes, begin);
      const size_t start = i;
      if (utf8::is_space(utf8::decode(text.bytes, i))) break;
      begin = start;
    }
    parts.push_back(text.slice(begin, end));
    end = skip_backward(text, 0, begin, nullptr);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Text replace_empty(const Text& text, const Text& by, int64_t count) {
  Text out;
  size_t i = 0;
  while (count != 0) {
    out.append(by);
    --count;
    if (i == text.size()) return out;
    size_t next = i;
    utf8::decode(text.bytes, next);
    out.append(text, i, next);
    i = next;
  }
  out.append(text, i, text.size());
  return out;
}

}  // namespace

Text Text::from_template(std::string_view bytes) {
  return {std::string(bytes), std::string(bytes.size(), '\0')};
}

Text Text::from_context(std::string_view bytes) {
  return {std::string(bytes), std::string(bytes.size(), '\1')};
}

void Text::append(const Text& other) {
  bytes += other.bytes;
  from_input += other.from_input;
}

void Text::append(std::string_view other, bool is_input) {
  bytes += other;
  from_input.append(other.size(), is_input ? '\1' : '\0');
}

void Text::append(const Text& other, size_t begin, size_t end) {
  bytes.append(other.bytes, begin, end - begin);
  from_input.append(other.from_input, begin, end - begin);
}

Text Text::slice(size_t begin, size_t end) const {
  return {bytes.substr(begin, end - begin), from_input.substr(begin, end - begin)};
}

Text strip(const Text& text, const Text* chars, Side side) {
  const size_t begin = side == Side::kRight ? 0 : skip_forward(text, 0, chars);
  const size_t end = side == Side::kLeft ? text.size() : skip_backward(text, begin, text.size(), chars);
  return text.slice(begin, end);
}

Text replace(const Text& text, const Text& old, const Text& by, int64_t count) {
  if (old.size() == 0) return replace_empty(text, by, count);
  Text out;
  size_t i = 0;
  for (; count != 0; --count) {
    const size_t found = text.bytes.find(old.bytes, i);
    if (found == std::string::npos) break;
    out.append(text, i, found);
    out.append(by);
    i = found + old.size();
  }
  out.append(text, i, text.size());
  return out;
}

std::vector<Text> split(const Text& text, const Text* separator, int64_t max_split) {
  if (separator == nullptr) return split_on_space(text, max_split);
  std::vector<Text> parts;
  size_t begin = 0;
  for (; max_split != 0; --max_split) {
    const size_t found = text.bytes.find(separator->bytes, begin);
    if (found == std::string::npos) break;
    parts.push_back(text.slice(begin, found));
    begin = found + separator->size();
  }
  parts.push_back(text.slice(begin, text.size()));
  return parts;
}

std::vector<Text> rsplit(const Text& text, const Text* separator, int64_t max_split) {
  if (separator == nullptr) return rsplit_on_space(text, max_split);
  std::vector<Text> parts;
  size_t end = text.size();
  for (; max_split != 0 && end >= separator->size(); --max_split) {
    const size_t found = text.bytes.rfind(separator->bytes, end - separator->size());
    if (found == std::string::npos) break;
    parts.push_back(text.slice(found + separator->size(), end));
    end = found;
  }
  parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t end = i;
    const char32_t c = utf8::decode(text.bytes, i);
    if (!utf8::is_line_end(c)) continue;
    if (c == '\r' && i < text.size() && text.bytes[i] == '\n') ++i;
    lines.push_back(text.slice(begin, keep_ends ? i : end));
    begin = i;
  }
  if (begin < text.size()) lines.push_back(text.slice(begin, text.size()));
  return lines;
}

std::vector<Text> characters(const Text& text) {
  std::vector<Text> out;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    utf8::decode(text.bytes, i);
    out.push_back(text.slice(begin, i));
  }
  return out;
}

Text reversed(const Text& text) {
  Text out;
  for (size_t end = text.size(); end > 0;) {
    const size_t begin = utf8::previous(text.bytes, end);
    out.append(text, begin, end);
    end = begin;
  }
  return out;
}

}  // namespace switchyard::jinja
