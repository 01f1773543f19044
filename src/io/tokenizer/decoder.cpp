#include "io/tokenizer/decoder.h"

#include "io/tokenizer/decode_steps.h"

namespace switchyard {

// The end of the chain collects the text.
class RunningDecoder::Output : public DecodeStep {
 public:
  void text(std::string_view fragment) override { text_ += fragment; }
  void end_token() override {}
  void finish() override {}
  std::string take() { return std::exchange(text_, {}); }

 private:
  std::string text_;
};

RunningDecoder::RunningDecoder(std::vector<std::unique_ptr<DecodeStep>> steps)
    : steps_(std::move(steps)), output_(std::make_unique<Output>()) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    steps_[i]->set_next(i + 1 < steps_.size() ? steps_[i + 1].get() : output_.get());
  }
}

RunningDecoder::RunningDecoder(RunningDecoder&&) noexcept = default;
RunningDecoder& RunningDecoder::operator=(RunningDecoder&&) noexcept = default;
RunningDecoder::~RunningDecoder() = default;

std::string RunningDecoder::push(std::string_view token) {
  DecodeStep& first = steps_.empty() ? *output_ : *steps_.front();
  first.text(token);
  first.end_token();
  return output_->take();
}

std::string RunningDecoder::finish() {
  DecodeStep& first = steps_.empty() ? *output_ : *steps_.front();
  first.finish();
  return output_->take();
}

TokenDecoder::TokenDecoder(const Json& value, const JsonPlace& place) {
  if (value.is_null()) {
    factories_.emplace_back([] { return std::make_unique<JoinWithSpaces>(); });
  } else {
    parse(value, place);
  }
}

void TokenDecoder::parse(const Json& value, const JsonPlace& place) {
  const JsonObject object(value, place);
  const std::string& type = object.string("type");
  if (type == "Sequence") {
    object.allow_only({"type", "decoders"});
    const Json& array = object.array("decoders");
    for (size_t i = 0; i < array.size(); ++i)
      parse(array[i], object.place("decoders").index(i));
  } else if (type == "ByteLevel") {  // its options concern encoding
    object.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    factories_.emplace_back([] { return std::make_unique<ByteLevelStep>(); });
  } else if (type == "ByteFallback") {
    object.allow_only({"type"});
    factories_.emplace_back([] { return std::make_unique<ByteFallbackStep>(); });
  } else if (type == "Fuse") {
    object.allow_only({"type"});
    factories_.emplace_back([] { return std::make_unique<FuseStep>(); });
  } else if (type == "Strip") {
    object.allow_only({"type", "content", "start", "stop"});
    const char32_t content = object.character("content");
    const int64_t start = object.integer("start", 0, INT32_MAX);
    const int64_t stop = object.integer("stop", 0, INT32_MAX);
    factories_.emplace_back(
        [content, start, stop] { return std::make_unique<StripStep>(content, start, stop); });
  } else if (type == "Replace") {
    object.allow_only({"type", "pattern", "content"});
    const Pattern pattern = Pattern::parse(object, "pattern");
    const std::string& content = object.string("content");
    factories_.emplace_back([pattern, content] { return std::make_unique<ReplaceStep>(pattern, content); });
  } else if (type == "Metaspace") {
    const Metaspace metaspace = parse_metaspace(object);
    factories_.emplace_back([metaspace] { return std::make_unique<MetaspaceStep>(metaspace); });
  } else {
    object.place("type").refuse("Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace or Metaspace",
                                printable(type));
  }
}

RunningDecoder TokenDecoder::start() const {
  std::vector<std::unique_ptr<DecodeStep>> steps;
  steps.reserve(factories_.size());
  for (const StepFactory& make : factories_)
    steps.push_back(make());
  return RunningDecoder(std::move(steps));
}

}  // namespace switchyard
