// Writes the samples of every target, one file each, to a directory of its name: where libFuzzer begins.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "target.hpp"

int main(int count, char** words) {
  if (count != 2) {
    std::cerr << "usage: fuzz_samples DIRECTORY\n";
    return 2;
  }
  for (const auto& [name, target] : overlimit::fuzz::targets()) {
    const std::filesystem::path directory = std::filesystem::path(words[1]) / name;
    std::filesystem::create_directories(directory);
    int number = 0;
    for (const std::string& sample : target.samples()) {
      std::ofstream(directory / ("sample-" + std::to_string(number++)), std::ios::binary) << sample;
    }
    std::cout << name << '\n';
  }
}
