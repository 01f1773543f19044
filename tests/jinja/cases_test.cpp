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

void check(const OrderedJson& test, const OrderedJson& context) {
  try {
    const Rendered out = Template::parse(template_of(test), "t").render(context, options());
    EXPECT_EQ(out.from_input.size(), out.text.size());
    ASSERT_TRUE(test.contains("expected")) << "wanted " << test << ", got: " << out.text;
    EXPECT_EQ(out.text, test["expected"].get<std::string>());
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_THAT(message, ::testing::StartsWith("t: line "));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_FALSE(test.contains("expected")) << message << "\nwanted: " << test["expected"];
    if (test.contains("refused")) {
      EXPECT_THAT(message, ::testing::HasSubstr(test["refused"].get<std::string>()));
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
