// expect_error(f, part): f throws Error and its message, one line, contains `part`.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

namespace switchyard {

template <typename F>
void expect_error(F&& f, const std::string& part) {
  try {
    f();
    ADD_FAILURE() << "expected an Error with: " << part;
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find(part), std::string::npos) << "message: " << message << "\nwanted: " << part;
    EXPECT_EQ(message.find('\n'), std::string::npos) << "more than one line: " << message;
  }
}

}  // namespace switchyard
