#include "io/chat_template.h"

#include <array>
#include <set>

#include "base/error.h"
#include "base/files.h"

namespace switchyard {
namespace {

constexpr int64_t kMaxTemplateBytes = int64_t{4} << 20;
constexpr int64_t kMaxTokenizerConfigBytes = int64_t{64} << 20;
constexpr std::array<const char*, 7> kSpecialTokens = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                       "pad_token", "cls_token", "mask_token"};
constexpr const char* kMoreSpecialTokens = "additional_special_tokens";

std::string got(const OrderedJson& value) {
  return describe(Json(value));
}

// A special token stands as a string or as an object that describes an added token.
std::string token_text(const Json& value, const std::string& path, const std::string& key) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    return value["content"].get<std::string>();
  }
  throw Error(path, key, "a string or an object with a string 'content'", describe(value));
}

// Not as OrderedJson, which takes quadratic time for an object of many keys.
Json read_config(const std::string& path) {
  Json config = parse_json(read_file(path, kMaxTokenizerConfigBytes), path);
  if (!config.is_object()) throw Error(path, "", "an object", describe(config));
  return config;
}

}  // namespace

std::optional<ChatTemplate> ChatTemplate::load(const std::string& folder) {
  const std::string config_path = folder + "/tokenizer_config.json";
  const std::string file_path = folder + "/chat_template.jinja";
  const Json config = path_exists(config_path) ? read_config(config_path) : Json::object();

  if (!path_exists(file_path)) return parse(config, config_path);
  ChatTemplate out;
  out.where_ = file_path;
  out.templates_.push_back(
      {"default", jinja::Template::parse(read_file(file_path, kMaxTemplateBytes), file_path)});
  out.read_special_tokens(config, config_path);
  return out;
}

std::optional<ChatTemplate> ChatTemplate::parse(const Json& tokenizer_config, const std::string& where) {
  if (!tokenizer_config.contains("chat_template") || tokenizer_config["chat_template"].is_null()) {
    return std::nullopt;
  }
  ChatTemplate out;
  out.where_ = where;
  out.read_templates(tokenizer_config["chat_template"], where);
  out.read_special_tokens(tokenizer_config, where);
  return out;
}

void ChatTemplate::read_templates(const Json& value, const std::string& path) {
  if (value.is_string()) {
    templates_.push_back(
        {"default", jinja::Template::parse(value.get<std::string>(), path + ": chat_template")});
    return;
  }
  if (!value.is_array()) {
    throw Error(path, "chat_template", "a string or a list of {name, template}", describe(value));
  }
  std::set<std::string> names;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string key = fmt::format("chat_template[{}]", i);
    for (const char* field : {"name", "template"}) {
      if (!value[i].is_object() || !value[i].contains(field) || !value[i][field].is_string()) {
        throw Error(path, key, fmt::format("an object with a string '{}'", field), describe(value[i]));
      }
    }
    const auto name = value[i]["name"].get<std::string>();
    if (!names.insert(name).second) {
      throw Error(path, key, "each name once", fmt::format("'{}' again", printable(name)));
    }
    const auto source = value[i]["template"].get<std::string>();
    templates_.push_back(
        {name, jinja::Template::parse(source, fmt::format("{}: chat_template '{}'", path, printable(name)))});
  }
}

void ChatTemplate::read_special_tokens(const Json& config, const std::string& path) {
  for (const char* key : kSpecialTokens) {
    if (!config.contains(key) || config[key].is_null()) continue;
    special_tokens_[key] = token_text(config[key], path, key);
  }
  if (!config.contains(kMoreSpecialTokens) || config[kMoreSpecialTokens].is_null()) return;
  const Json& more = config[kMoreSpecialTokens];
  if (!more.is_array()) throw Error(path, kMoreSpecialTokens, "a list", describe(more));
  OrderedJson texts = OrderedJson::array();
  for (const Json& token : more)
    texts.push_back(token_text(token, path, kMoreSpecialTokens));
  if (!texts.empty()) special_tokens_[kMoreSpecialTokens] = std::move(texts);
}

const jinja::Template& ChatTemplate::choose(bool has_tools) const {
  const auto find = [this](std::string_view name) -> const jinja::Template* {
    for (const Named& named : templates_) {
      if (named.name == name) return &named.parsed;
    }
    return nullptr;
  };
  if (has_tools) {
    if (const jinja::Template* found = find("tool_use")) return *found;
  }
  if (const jinja::Template* found = find("default")) return *found;
  std::string names;
  for (const Named& named : templates_)
    names += (names.empty() ? "" : ", ") + printable(named.name);
  throw Error(where_, "chat_template", "a template named 'default'", names.empty() ? "none" : names);
}

jinja::Rendered ChatTemplate::render(const OrderedJson& messages, const ChatOptions& options) const {
  if (!messages.is_array()) throw Error(where_, "messages", "an array", got(messages));
  if (!options.tools.is_null() && !options.tools.is_array()) {
    throw Error(where_, "tools", "null or an array", got(options.tools));
  }
  if (!options.extra.is_null() && !options.extra.is_object()) {
    throw Error(where_, "extra variables", "null or an object", got(options.extra));
  }
  // As `transformers` passes them: tools and documents are always there, None when not given.
  OrderedJson context = special_tokens_;
  context["messages"] = messages;
  context["tools"] = options.tools;
  context["documents"] = nullptr;
  context["add_generation_prompt"] = options.add_generation_prompt;
  jinja::RenderOptions render_options = options.render;
  for (auto token = special_tokens_.begin(); token != special_tokens_.end(); ++token) {
    render_options.trusted.insert(token.key());
  }
  if (options.extra.is_object()) {
    for (auto item = options.extra.begin(); item != options.extra.end(); ++item) {
      if (context.contains(item.key()) && item.key() != "documents") {
        throw Error(where_, printable(item.key()), "a new variable",
                    "one that messages, tools or special tokens define");
      }
      context[item.key()] = item.value();
    }
  }
  return choose(options.tools.is_array()).render(context, render_options);
}

}  // namespace switchyard
