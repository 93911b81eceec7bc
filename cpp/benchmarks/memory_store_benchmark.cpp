// What one call costs inside the engine, without Python.
#include <benchmark/benchmark.h>

#include <random>

#include "overlimit/decision.hpp"
#include "overlimit/memory_store.hpp"

namespace overlimit {
namespace {

constexpr std::int64_t kPlenty = 1'000'000'000'000;
constexpr Duration kMinute{60'000'000};

Limit window(Duration period) {
  return Limit("sliding_window", std::vector<std::int64_t>{kPlenty, period.micros(), 0});
}

/// One call after another on the same charges, folded.
void decide_repeatedly(benchmark::State& state, const CompiledPolicy& policy, std::size_t identifiers,
                       std::size_t keys, bool shuffled = false) {
  MemoryStore store(2'000'000, std::size_t{1} << 30);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < keys; ++i) names.push_back("ip:" + std::to_string(i));
  const std::size_t pairs = identifiers * policy.size();
  std::vector<Status> status(pairs);
  std::vector<std::int64_t> remaining(pairs);
  std::vector<Duration> retry(pairs), reset(pairs), delay(pairs);
  std::vector<Instant> time(1);
  std::vector<Receipt> receipt(pairs);
  const Rows rows{status.data(), remaining.data(), retry.data(), reset.data(),
                  delay.data(),  receipt.data(),   pairs};
  std::vector<Charge> charges(identifiers);
  std::size_t next = 0;
  ChargeBits crowded = 0;
  const auto decide_next = [&] {
    for (Charge& charge : charges) charge = {&policy, names[next++ % keys]};
    const Call call{charges};
    store.decide({&call, 1}, rows, time, {&crowded, 1}, {});
  };
  for (std::size_t i = 0; i < keys; ++i) decide_next();
  if (shuffled) std::ranges::shuffle(names, std::mt19937_64(1));
  for (auto _ : state) {
    decide_next();
    benchmark::DoNotOptimize(fold(charges, rows));
  }
}

void one_limit(benchmark::State& state) {
  decide_repeatedly(state, CompiledPolicy("p", {window(kMinute)}), 1, 1);
}
void one_limit_many_keys(benchmark::State& state) {
  decide_repeatedly(state, CompiledPolicy("p", {window(kMinute)}), 1, 30'000);
}
void three_limits_two_identifiers(benchmark::State& state) {
  decide_repeatedly(state, CompiledPolicy("p", {window(kMinute / 60), window(kMinute), window(60 * kMinute)}),
                    2, 2);
}

/// Keys in an order that no cache could foresee.
void one_limit_random_keys(benchmark::State& state) {
  decide_repeatedly(state, CompiledPolicy("p", {window(60 * kMinute)}), 1, std::size_t(state.range(0)), true);
}

BENCHMARK(one_limit);
BENCHMARK(one_limit_many_keys);
BENCHMARK(one_limit_random_keys)->Arg(1'000)->Arg(30'000)->Arg(300'000)->Arg(1'000'000);
BENCHMARK(three_limits_two_identifiers);

}  // namespace
}  // namespace overlimit
