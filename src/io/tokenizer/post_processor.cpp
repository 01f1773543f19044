#include "io/tokenizer/post_processor.h"

#include "io/tokenizer/vocabulary.h"

namespace switchyard {
namespace {

// The ids that the template's `special_tokens` give for a name.
std::vector<int32_t> special_ids(const JsonObject& owner, const std::string& name,
                                 const std::function<bool(int64_t)>& knows_id) {
  const JsonObject table(owner.at("special_tokens"), owner.place("special_tokens"));
  const JsonObject special(table.at(name), table.place(name));
  special.allow_only({"id", "ids", "tokens"});
  const Json& array = special.array("ids");
  std::vector<int32_t> ids;
  for (const Json& id : array) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kMaxTokenId ||
        !knows_id(id.get<int64_t>())) {
      special.place("ids").refuse("ids of known tokens", describe(id));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace

PostProcessor::PostProcessor(const Json& value, const JsonPlace& place,
                             const std::function<bool(int64_t)>& knows_id) {
  if (!value.is_null()) parse(value, place, knows_id);
}

void PostProcessor::parse(const Json& value, const JsonPlace& place,
                          const std::function<bool(int64_t)>& knows_id) {
  const JsonObject object(value, place);
  const std::string& type = object.string("type");
  if (type == "ByteLevel") {  // trims offsets, which are not computed here
    object.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  } else if (type == "Sequence") {
    object.allow_only({"type", "processors"});
    const Json& steps = object.array("processors");
    for (size_t i = 0; i < steps.size(); ++i) {
      parse(steps[i], object.place("processors").index(i), knows_id);
    }
  } else if (type == "TemplateProcessing") {
    parse_template(object, knows_id);
  } else {
    object.place("type").refuse("Sequence, ByteLevel or TemplateProcessing", printable(type));
  }
}

void PostProcessor::parse_template(const JsonObject& object, const std::function<bool(int64_t)>& knows_id) {
  object.allow_only({"type", "single", "pair", "special_tokens"});
  const Json& pieces = object.array("single");
  std::vector<int32_t> before;
  std::vector<int32_t> behind;
  int texts = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const JsonPlace place = object.place("single").index(i);
    const JsonObject piece(pieces[i], place);
    piece.allow_only({"Sequence", "SpecialToken"});
    const bool is_text = piece.find("Sequence") != nullptr;
    const std::string_view key = is_text ? "Sequence" : "SpecialToken";
    const JsonObject body(piece.at(key), piece.place(key));
    body.allow_only({"id", "type_id"});
    const std::string& name = body.string("id");
    if (is_text) {
      if (name != "A" || ++texts > 1) place.refuse("the text A, once", printable(name));
    } else {
      auto& side = texts == 0 ? before : behind;
      const auto ids = special_ids(object, name, knows_id);
      side.insert(side.end(), ids.begin(), ids.end());
    }
  }
  if (texts == 0) object.place("single").refuse("the text A, once", "no text");
  before_.insert(before_.begin(), before.begin(), before.end());
  behind_.insert(behind_.end(), behind.begin(), behind.end());
}

void PostProcessor::apply(std::vector<int32_t>& ids) const {
  ids.insert(ids.begin(), before_.begin(), before_.end());
  ids.insert(ids.end(), behind_.begin(), behind_.end());
}

}  // namespace switchyard
