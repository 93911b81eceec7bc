// The scripts: their texts, made of the fragments under lua/, and their SHA1s.
#pragma once

#include <string>

namespace overlimit::redis {

/// A script's text and the 40 hex digits that Redis knows it by. Immutable.
class Script {
 public:
  explicit Script(std::string text);
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::string& sha1() const { return sha1_; }

 private:
  std::string text_;
  std::string sha1_;
};

/// The seven scripts, the same for every store and every policy (lua/README.md).
struct Scripts {
  Scripts();

  const Script decide_one;
  const Script decide_several;
  const Script read;
  const Script refund;
  const Script lock;
  const Script lease;
  const Script restore;
};

}  // namespace overlimit::redis
