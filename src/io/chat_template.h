// The chat template of a checkpoint: how a conversation becomes the text that the model was trained on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "jinja/jinja.h"

namespace switchyard {

struct ChatOptions {
  bool add_generation_prompt = true;  // end with the opening of the assistant's turn
  OrderedJson tools;                  // null or an array of tool descriptions
  OrderedJson extra;                  // null or an object: more variables, e.g. enable_thinking
  jinja::RenderOptions render;        // limits and clock; its `trusted` is filled in here
};

class ChatTemplate {
 public:
  // Reads the template of a checkpoint folder as `transformers` does: the file chat_template.jinja, or else
  // the key `chat_template` of tokenizer_config.json, a string or a list of {name, template}. Nothing when
  // the folder has neither. Throws Error naming file and key for anything malformed, and for a template with
  // bad syntax.
  static std::optional<ChatTemplate> load(const std::string& folder);
  // The same from a tokenizer_config.json alone; `where` names it in errors.
  static std::optional<ChatTemplate> parse(const Json& tokenizer_config, const std::string& where);

  // Renders `messages`, an array of objects. Of several named templates, "tool_use" is taken when there are
  // tools and it exists, else "default". The special tokens of tokenizer_config.json (bos_token, ...) are
  // variables whose bytes count as the template's own; messages, tools and extra variables count as input.
  // Throws Error.
  jinja::Rendered render(const OrderedJson& messages, const ChatOptions& options = {}) const;

 private:
  struct Named {
    std::string name;
    jinja::Template parsed;
  };

  ChatTemplate() = default;
  void read_templates(const Json& value, const std::string& path);
  void read_special_tokens(const Json& config, const std::string& path);
  const jinja::Template& choose(bool has_tools) const;

  std::string where_;  // the file that the templates come from
  std::vector<Named> templates_;
  OrderedJson special_tokens_ = OrderedJson::object();
};

}  // namespace switchyard
