// Finds stop strings in streamed text. A stop string may span tokens, so text that could be the start of one
// is held back until it is clear. The stop string that is complete first wins, of those complete at the same
// character the longest: what is shown depends on the text alone, not on the pieces that it came in.
#pragma once

#include <string>
#include <vector>

namespace switchyard {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);  // none of them empty

  // Adds text and returns what may be shown. Once stopped(), everything from the stop string on is dropped.
  std::string push(const std::string& text);
  std::string finish();  // the text still held back
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace switchyard
