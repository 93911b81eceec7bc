// The traces of tests/vectors (its README.md has their format), played on a store.
#pragma once

#include <string>
#include <vector>

#include "overlimit/store.hpp"

namespace overlimit::testing {

/// The names of all files, without what they end with.
std::vector<std::string> all_vectors();

/// Plays the trace of a file on an empty store, and fails where it does not answer as the trace says.
void play_vector(Store& store, const std::string& name);

}  // namespace overlimit::testing
