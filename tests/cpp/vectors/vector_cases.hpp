// The traces of tests/vectors, as cases of every store.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>

#include "../stores/store_cases.hpp"
#include "vector_player.hpp"

namespace overlimit::testing {

/// How to make a store, and a file.
class Vectors : public ::testing::TestWithParam<std::tuple<MakeStore, std::string>> {};

TEST_P(Vectors, AreAnsweredAsTheySay) {
  const auto& [make_store, name] = GetParam();
  const std::unique_ptr<Store> store = make_store();
  play_vector(*store, name);
}

inline std::string name_of_vector(const ::testing::TestParamInfo<Vectors::ParamType>& info) {
  return std::get<1>(info.param);
}

}  // namespace overlimit::testing
