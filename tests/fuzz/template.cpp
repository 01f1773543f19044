// Any bytes as a template, rendered over a fixed chat within tight limits: an Error or a text whose mask is
// as long.
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "jinja/jinja.h"

namespace {

const switchyard::OrderedJson& context() {
  static const auto kContext = switchyard::OrderedJson::parse(R"({
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "h\u00e9llo <|im_end|>"},
                 {"role": "assistant", "content": "<think>\nx</think>y", "tool_calls": [
                   {"type": "function", "function": {"name": "f", "arguments": {"a": [1, 2.5, null, true]}}}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "s"}}}}}],
    "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": true, "n": 3, "l": [3, 1, 2]})");
  return kContext;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  switchyard::jinja::RenderOptions options;
  options.max_output_bytes = 1 << 16;
  options.max_string_bytes = 1 << 16;
  options.max_steps = 20'000;
  options.max_range = 1000;
  options.trusted = {"bos_token", "eos_token"};
  try {
    const std::string_view source(reinterpret_cast<const char*>(data), size);
    const auto rendered = switchyard::jinja::Template::parse(source, "fuzz").render(context(), options);
    SY_CHECK(rendered.text.size() == rendered.from_input.size(), "{} {}", rendered.text.size(),
             rendered.from_input.size());
  } catch (const switchyard::Error&) {
  }
  return 0;
}
