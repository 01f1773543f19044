#define PCRE2_CODE_UNIT_WIDTH 8

#include "io/tokenizer/regex.h"

#include <pcre2.h>

#include "io/tokenizer/regex_syntax.h"

namespace switchyard {
namespace {

constexpr size_t kMaxPatternBytes = 1 << 16;
constexpr uint32_t kMaxSteps = 10'000'000;  // Oniguruma's default retry limit
constexpr size_t kMaxHeapKib = 64 * 1024;
constexpr size_t kJitStackBytes = 32 * 1024;  // grows on demand up to the limit
constexpr size_t kMaxJitStackBytes = 8 * 1024 * 1024;

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};

template <typename T>
using Owned = std::unique_ptr<T, Free>;

// What one thread needs for matching, whatever the pattern: only the bounds of the whole match are asked for.
struct MatchState {
  Owned<pcre2_match_data> data{pcre2_match_data_create(1, nullptr)};
  Owned<pcre2_match_context> context{pcre2_match_context_create(nullptr)};
  Owned<pcre2_jit_stack> stack{pcre2_jit_stack_create(kJitStackBytes, kMaxJitStackBytes, nullptr)};

  MatchState() {
    if (!data || !context || !stack) throw std::bad_alloc();
    pcre2_set_match_limit(context.get(), kMaxSteps);
    pcre2_set_heap_limit(context.get(), kMaxHeapKib);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

MatchState& this_threads_state() {
  thread_local MatchState state;
  return state;
}

std::string message(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

Owned<pcre2_code> compile(std::string_view pattern, const JsonPlace& place) {
  if (pattern.size() > kMaxPatternBytes) {
    place.refuse(fmt::format("a pattern of at most {} bytes", kMaxPatternBytes),
                 fmt::format("{} bytes", pattern.size()));
  }
  const std::string translated = pcre2_syntax(pattern, place);
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int code = 0;
  size_t offset = 0;
  // MULTILINE: ^ and $ are line anchors in Oniguruma's default syntax.
  Owned<pcre2_code> compiled(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                           PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                           &code, &offset, context.get()));
  if (!compiled) {
    place.refuse("a regular expression", fmt::format("{} ({})", printable(pattern), message(code)));
  }
  // The result is ignored as PCRE2's manual advises: without JIT support the same pattern is interpreted.
  pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE);
  return compiled;
}

}  // namespace

struct Regex::Code {
  Owned<pcre2_code> compiled;
};

Regex::Regex(std::string_view pattern, const JsonPlace& place)
    : code_(std::make_shared<const Code>(Code{compile(pattern, place)})), place_(place) {}

std::optional<RegexMatch> Regex::find(std::string_view text, size_t from) const {
  const MatchState& state = this_threads_state();
  const int result =
      pcre2_match(code_->compiled.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                  PCRE2_NO_UTF_CHECK, state.data.get(), state.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    place_.refuse("a pattern that matches within its limits",
                  fmt::format("{} at byte {} of a text of {} bytes", message(result), from, text.size()));
  }
  const size_t* bounds = pcre2_get_ovector_pointer(state.data.get());
  return RegexMatch{bounds[0], bounds[1]};
}

}  // namespace switchyard
