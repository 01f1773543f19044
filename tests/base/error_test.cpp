#include "base/error.h"

#include <gtest/gtest.h>

namespace switchyard {
namespace {

TEST(Error, NamesPlaceItemExpectedAndGot) {
  EXPECT_STREQ(Error("a/config.json", "key 'num_experts'", "64", "60").what(),
               "a/config.json: key 'num_experts': expected 64, got 60");
  EXPECT_STREQ(Error("a.json", "", "valid JSON", "nothing").what(),
               "a.json: expected valid JSON, got nothing");
}

TEST(Error, IsOneLineWhateverThePath) {
  EXPECT_STREQ(Error("a\nb", "", "a file", "nothing").what(), "a\\nb: expected a file, got nothing");
  EXPECT_STREQ(Error("a\nb", "broken").what(), "a\\nb: broken");
}

TEST(Printable, EscapesWhatWouldBreakALine) {
  EXPECT_EQ(printable("a\nb\x01\x7f"), "a\\nb\\x01\\x7f");
  EXPECT_EQ(printable("h\xC3\xA9 \xE4\xB8\xAD"), "h\xC3\xA9 \xE4\xB8\xAD");
  EXPECT_EQ(printable("\xC2\x9B"  // the C1 form of ESC [
                      "2J\xC2\xA0"),
            "\\xc2\\x9b"
            "2J\xC2\xA0");
}

TEST(Printable, EscapesInvalidUtf8) {
  EXPECT_EQ(printable("\xFF"), "\\xff");
  EXPECT_EQ(printable("\xC0\xAF"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");  // surrogate
  EXPECT_EQ(printable("\xE4\xB8"), "\\xe4\\xb8");           // cut
}

TEST(Printable, CutsLongText) {
  EXPECT_EQ(printable(std::string(200, 'x'), 10), "xxxxxxxxxx...");
}

TEST(CheckDeathTest, AbortsWithBothValues) {
  const int got = 3;
  EXPECT_DEATH(SY_CHECK(got == 4, "got {}, want {}", got, 4), "check failed: got == 4: got 3, want 4");
}

}  // namespace
}  // namespace switchyard
