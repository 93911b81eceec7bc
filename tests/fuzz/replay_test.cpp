// What fuzzers search, without a fuzzer: the samples, each cut short and changed at every place, and the
// cases that a search has found before.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "target.hpp"

namespace overlimit::fuzz {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& [name, target] : targets()) names.push_back(name);
  return names;
}

class FuzzTargets : public ::testing::TestWithParam<std::string> {
 protected:
  void run(std::string_view input) const {
    ASSERT_NO_THROW(target_.run(input)) << ::testing::PrintToString(std::string(input));
  }

  const Target& target_ = targets().at(GetParam());
};

TEST_P(FuzzTargets, HoldForWhatRealPeersWrite) {
  ASSERT_GE(target_.samples().size(), 2U);
  for (const std::string& sample : target_.samples()) run(sample);
}

TEST_P(FuzzTargets, HoldWhereverItIsCutShort) {
  for (const std::string& sample : target_.samples()) {
    for (std::size_t size = 0; size < sample.size(); ++size) run(std::string_view(sample).substr(0, size));
  }
}

TEST_P(FuzzTargets, HoldWhicheverByteIsChanged) {
  for (std::string sample : target_.samples()) {
    for (char& byte : sample) {
      const char before = byte;
      for (const char other : {'\0', '\xff', '\x7f', '-', '9', static_cast<char>(before + 1)}) {
        byte = other;
        run(sample);
      }
      byte = before;
    }
  }
}

TEST_P(FuzzTargets, HoldForWhatWasFoundBefore) {
  const std::filesystem::path cases = std::filesystem::path(OVERLIMIT_FUZZ_CASES) / GetParam();
  if (!std::filesystem::exists(cases)) return;
  for (const auto& file : std::filesystem::directory_iterator(cases)) {
    std::ifstream stream(file.path(), std::ios::binary);
    run(std::string(std::istreambuf_iterator<char>(stream), {}));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzTargets, ::testing::ValuesIn(names()),
                         [](const auto& named) { return named.param; });

}  // namespace
}  // namespace overlimit::fuzz
