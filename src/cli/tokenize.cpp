#include "base/error.h"
#include "cli/commands.h"
#include "cli/common.h"

namespace switchyard {
namespace {

struct Options {
  std::string path;
  bool decode = false;
  bool whole = false;
  bool add_special = false;
  bool literal = false;
  bool skip_special = false;
  bool json = false;
};

std::vector<int32_t> parse_ids(const std::string& line) {
  const Json ids = parse_json(line, "stdin");
  if (!ids.is_array()) throw Error("stdin", "", "a JSON array of token ids", describe(ids));
  std::vector<int32_t> result;
  for (const Json& id : ids) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      throw Error("stdin", "", "a token id", describe(id));
    result.push_back(id.get<int32_t>());
  }
  return result;
}

std::string convert(const Tokenizer& tokenizer, const Options& o, const std::string& text) {
  if (o.decode) {
    const std::string decoded = tokenizer.decode(parse_ids(text), o.skip_special);
    return o.json ? Json(decoded).dump(-1, ' ', false, Json::error_handler_t::replace) : decoded;
  }
  check_utf8("stdin", text);
  return Json(tokenizer.encode(text, {.add_special_tokens = o.add_special, .parse_special = !o.literal}))
      .dump();
}

int tokenize(const Options& o) {
  const Tokenizer tokenizer = load_tokenizer(*ModelFiles::open(o.path));
  if (o.whole) {
    print(convert(tokenizer, o, read_stdin()) + "\n");
    return 0;
  }
  for (std::string text; read_line(text);)
    print(convert(tokenizer, o, text) + "\n");
  return 0;
}

}  // namespace

Command tokenize_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("tokenize", "Turns each line of stdin into a JSON array of token ids");
  add_model_option(*command, o->path, "Folder with a tokenizer.json, or a .gguf file");
  CLI::Option* decode =
      command->add_flag("--decode", o->decode, "The other way: each line of stdin is an array of ids");
  command->add_flag("--whole", o->whole, "Takes all of stdin, line breaks included, as one text");
  command
      ->add_flag("--add-special", o->add_special,
                 "Adds what the tokenizer puts around a text, such as a BOS token")
      ->excludes(decode);
  command->add_flag("--literal", o->literal, "Special tokens written in the text are ordinary text")
      ->excludes(decode);
  command->add_flag("--skip-special", o->skip_special, "With --decode: leaves special tokens out")
      ->needs(decode);
  command->add_flag("--json", o->json, "With --decode: prints each text as a JSON string")->needs(decode);
  return {command, [o] { return tokenize(*o); }};
}

}  // namespace switchyard
