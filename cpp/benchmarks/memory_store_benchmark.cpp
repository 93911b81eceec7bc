// What one call costs inside the engine, without Python.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>

#include "overlimit/decision.hpp"
#include "overlimit/memory_store.hpp"
#include "overlimit/shared_memory_store.hpp"

namespace overlimit {
namespace {

constexpr std::int64_t kPlenty = 1'000'000'000'000;
constexpr Duration kMinute{60'000'000};

Limit window(Duration period) {
  return Limit("sliding_window", std::vector<std::int64_t>{kPlenty, period.micros(), 0});
}

CompiledPolicy one_window(Duration period) { return CompiledPolicy("p", {window(period)}); }

std::vector<std::string> names_of(std::size_t keys, const std::string& prefix = "ip:") {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < keys; ++i) names.push_back(prefix + std::to_string(i));
  return names;
}

std::vector<std::string> shuffled(std::vector<std::string> names) {
  std::ranges::shuffle(names, std::mt19937_64(1));
  return names;
}

/// Decides calls of some identifiers each, one after the other, and folds what they answer.
class Caller {
 public:
  Caller(Store& store, const CompiledPolicy& policy, std::size_t identifiers)
      : store_(store),
        policy_(policy),
        charges_(identifiers),
        memory_(identifiers * policy.size() * kRowBytes),
        rows_(rows_at(memory_.data(), identifiers * policy.size())) {}

  void call_each(std::span<const std::string> names) {
    for (std::size_t i = 0; i < names.size(); ++i) call(names);
  }
  void call(std::span<const std::string> names) {
    for (Charge& charge : charges_) charge = {&policy_, names[next_++ % names.size()]};
    const Call call{charges_};
    Instant time;
    Basis basis;
    store_.decide_one(call, rows_, time, basis, {});
    benchmark::DoNotOptimize(fold(charges_, rows_));
  }

 private:
  Store& store_;
  const CompiledPolicy& policy_;
  std::vector<Charge> charges_;
  std::vector<std::byte> memory_;
  Rows rows_;
  std::size_t next_ = 0;
};

void decide_repeatedly(benchmark::State& state, Store& store, const CompiledPolicy& policy,
                       std::size_t identifiers, std::span<const std::string> names) {
  Caller caller(store, policy, identifiers);
  caller.call_each(names);
  for (auto _ : state) caller.call(names);
  state.SetItemsProcessed(state.iterations());
}

constexpr std::size_t kManyKeys = 2'000'000;
constexpr std::size_t kManyBytes = std::size_t{1} << 30;

void one_limit(benchmark::State& state) {
  MemoryStore store;
  decide_repeatedly(state, store, one_window(kMinute), 1, names_of(1));
}
void one_limit_many_keys(benchmark::State& state) {
  MemoryStore store;
  decide_repeatedly(state, store, one_window(kMinute), 1, names_of(30'000));
}
void three_limits_two_identifiers(benchmark::State& state) {
  MemoryStore store;
  const CompiledPolicy policy("p", {window(kMinute / 60), window(kMinute), window(60 * kMinute)});
  decide_repeatedly(state, store, policy, 2, names_of(2));
}

template <class Store>
std::unique_ptr<Store> large_store();

template <>
std::unique_ptr<MemoryStore> large_store() {
  return std::make_unique<MemoryStore>(kManyKeys, kManyBytes);
}

template <>
std::unique_ptr<SharedMemoryStore> large_store() {
  return std::make_unique<SharedMemoryStore>(
      SharedMemoryStore::Options{.name_or_path = "benchmark-" + std::to_string(::getpid()),
                                 .max_keys = kManyKeys,
                                 .max_bytes = std::size_t{256} << 20});
}

/// Keys in an order that no cache could foresee, in a store where all of them are; each run goes on behind
/// the one before.
template <class Store>
class RandomKeys {
 public:
  /// Made once for all runs, as that takes longer than they do.
  static RandomKeys& of(std::size_t keys) {
    static std::map<std::size_t, RandomKeys> made;
    return made.try_emplace(keys, keys).first->second;
  }
  explicit RandomKeys(std::size_t keys) : names_(shuffled(names_of(keys))) {
    caller_.call_each(names_);
    // From now on only this process knows the file.
    if constexpr (requires { store_->unlink(); }) store_->unlink();
  }

  void call() { caller_.call(names_); }

 private:
  std::vector<std::string> names_;
  CompiledPolicy policy_ = one_window(60 * kMinute);
  std::unique_ptr<Store> store_ = large_store<Store>();
  Caller caller_{*store_, policy_, 1};
};

template <class Store>
void one_limit_random_keys(benchmark::State& state) {
  auto& keys = RandomKeys<Store>::of(std::size_t(state.range(0)));
  for (auto _ : state) keys.call();
}

/// Threads that have a thousand keys each.
void one_limit_from_threads(benchmark::State& state) {
  static MemoryStore store;
  decide_repeatedly(state, store, one_window(60 * kMinute), 1,
                    shuffled(names_of(1'000, std::to_string(state.thread_index()) + ":")));
}

/// Threads that have the same keys, each in an order of its own.
void one_limit_same_keys_from_threads(benchmark::State& state) {
  static MemoryStore store;
  std::vector<std::string> names = names_of(1'000);
  std::ranges::shuffle(names, std::mt19937_64(std::uint64_t(state.thread_index())));
  decide_repeatedly(state, store, one_window(60 * kMinute), 1, names);
}
void one_limit_same_key_from_threads(benchmark::State& state) {
  static MemoryStore store;
  decide_repeatedly(state, store, one_window(60 * kMinute), 1, names_of(1));
}

/// The floor of threads that share a lock: what a cache line takes from one to the other.
void cache_line_between_threads(benchmark::State& state) {
  alignas(64) static std::atomic<int> whose_turn{0};
  const int own = state.thread_index();
  for (auto _ : state) {
    while (whose_turn.load(std::memory_order_acquire) != own) {
    }
    whose_turn.store(1 - own, std::memory_order_release);
  }
}

BENCHMARK(one_limit);
BENCHMARK(one_limit_many_keys);
BENCHMARK(one_limit_random_keys<MemoryStore>)->Arg(1'000)->Arg(30'000)->Arg(300'000)->Arg(1'000'000);
BENCHMARK(one_limit_random_keys<SharedMemoryStore>)->Arg(1)->Arg(1'000)->Arg(1'000'000);
BENCHMARK(one_limit_from_threads)->ThreadRange(1, 2)->UseRealTime();
BENCHMARK(one_limit_same_keys_from_threads)->Threads(2)->UseRealTime();
BENCHMARK(one_limit_same_key_from_threads)->ThreadRange(1, 2)->UseRealTime();
BENCHMARK(cache_line_between_threads)->Threads(2)->UseRealTime();
BENCHMARK(three_limits_two_identifiers);

}  // namespace
}  // namespace overlimit
