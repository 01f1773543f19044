// Every template of tests/data/jinja renders as Jinja2 itself did (scripts/make_jinja_data.py): the same
// text, or an error where it raised one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "jinja/jinja.h"

namespace switchyard::jinja {
namespace {

const std::string kRoot = SWITCHYARD_SOURCE_DIR;

OrderedJson load(const std::string& path) {
  return parse_ordered_json(read_file(kRoot + "/" + path, int64_t{64} << 20), path);
}

RenderOptions options() {
  RenderOptions out;
  out.now = [] {  // Friday, 2024-07-26 09:05:03, as in the script
    std::tm t{};
    t.tm_year = 124;
    t.tm_mon = 6;
    t.tm_mday = 26;
    t.tm_hour = 9;
    t.tm_min = 5;
    t.tm_sec = 3;
    t.tm_wday = 5;
    t.tm_yday = 207;
    return t;
  };
  return out;
}

std::string template_of(const OrderedJson& test) {
  if (test.contains("template")) return test["template"].get<std::string>();
  const auto path = test["template_file"].get<std::string>();
  if (path.ends_with(".json")) return load(path)["chat_template"].get<std::string>();
  return read_file(kRoot + "/" + path, 1 << 20);
}

// What Jinja2 renders and this engine refuses by design: the message each must give.
const std::vector<std::pair<std::string, std::string>> kRefused = {
#include "refused.inc"
};

const std::string* refusal(const std::string& source) {
  for (const auto& row : kRefused) {
    if (row.first == source) return &row.second;
  }
  return nullptr;
}

void check(const OrderedJson& test, const OrderedJson& context) {
  const std::string source = template_of(test);
  const std::string* refused = test.contains("template") ? refusal(source) : nullptr;
  try {
    const Rendered out = Template::parse(source, "t").render(context, options());
    EXPECT_EQ(out.from_input.size(), out.text.size());
    EXPECT_EQ(refused, nullptr) << "rendered although listed as refused: " << out.text;
    EXPECT_TRUE(test.contains("expected")) << "Jinja2 said " << test["error"] << ", got: " << out.text;
    if (test.contains("expected")) {
      EXPECT_EQ(out.text, test["expected"].get<std::string>());
    }
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_THAT(message, ::testing::StartsWith("t: "));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    if (refused != nullptr) {
      EXPECT_THAT(message, ::testing::HasSubstr(*refused));
    } else {
      EXPECT_TRUE(test.contains("error")) << message << "\nwanted: " << test["expected"];
    }
  }
}

TEST(Cases, SmallTemplatesRenderAsJinja2Does) {
  const OrderedJson data = load("tests/data/jinja/cases.json");
  ASSERT_GT(data["cases"].size(), 600U);
  for (const OrderedJson& test : data["cases"]) {
    SCOPED_TRACE(test["template"].get<std::string>());
    check(test, data["context"]);
  }
}

TEST(Cases, ChatTemplatesRenderAsJinja2Does) {
  const OrderedJson data = load("tests/data/jinja/families.json");
  ASSERT_GT(data.size(), 900U);
  for (const OrderedJson& test : data) {
    SCOPED_TRACE(test["name"].get<std::string>());
    check(test, test["context"]);
  }
}

}  // namespace
}  // namespace switchyard::jinja
