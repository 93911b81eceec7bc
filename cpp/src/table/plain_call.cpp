#include "table/plain_call.hpp"

#include <algorithm>

#include "overlimit/uninitialised_array.hpp"

namespace overlimit::table {
namespace {

// More are left to a Transaction.
constexpr std::size_t kMostPairs = 64;

class PlainCall : NonCopyable {
 public:
  PlainCall(const Call& call, std::span<const KnownKey> keys, const Readings& readings,
            std::atomic<Instant>& newest_creation, const Rows& rows)
      : call_(call), keys_(keys), readings_(readings), newest_creation_(newest_creation), rows_(rows) {}

  /// Of a single pair, which is examined and charged in one go.
  [[gnu::flatten]] bool decide_pair() {
    const KnownKey& key = keys_.front();
    return with_algorithm(
        limits_of(key).front().limit, [&](const auto& limit) __attribute__((always_inline)) {
          ExaminedPair examined;
          examine(limit, key, *key.entry->begin(), examined);
          if (examined.verdict.status != Status::ok) {
            if (may_lock()) return false;
            fill_uncharged(limit, key, *key.entry->begin(), examined, 0);
          } else if (call_.mode == Mode::peek) {
            show(limit, examined, key, 0);
          } else {
            WriteScope writing(keys_);
            begin_charge(key);
            charge(limit, examined, key, *key.entry->begin(), 0);
            end_charge(key);
            writing.complete();
          }
          return true;
        });
  }

  [[gnu::noinline]] bool decide_all() {
    if (!examine_all()) {
      if (may_lock()) return false;
      fill_all_uncharged();
    } else if (call_.mode == Mode::peek) {
      show_all();
    } else {
      charge_all();
    }
    return true;
  }

 private:
  static std::span<const CompiledLimit> limits_of(const KnownKey& key) {
    return key.charge->policy->limits();
  }

  /// Calls visit(algorithm, key, record, row) for every pair.
  template <class Visit>
  [[gnu::always_inline]] void for_each_pair(const Visit& visit) const {
    std::size_t row = 0;
    for (const KnownKey& key : keys_) for_each_pair_of(key, row, visit);
  }
  template <class Visit>
  [[gnu::always_inline]] void for_each_pair_of(const KnownKey& key, std::size_t& row,
                                               const Visit& visit) const {
    Record* record = key.entry->begin();
    for (const CompiledLimit& each : limits_of(key)) {
      with_algorithm(
          each.limit, [&](const auto& limit)
                          __attribute__((always_inline)) { visit(limit, key, *record, row); });
      ++record;
      ++row;
    }
  }

  template <class Limited>
  [[gnu::always_inline]] void examine(const Limited& limit, const KnownKey& key, const Record& record,
                                      ExaminedPair& examined) const {
    const FoundRecord found = found_record(key.shard->arena(), record);
    detail::examine(limit, &found, readings_.now, key.charge->cost, call_.patience, examined);
  }

  template <class Limited>
  [[gnu::always_inline]] void charge(const Limited& limit, const ExaminedPair& examined, const KnownKey& key,
                                     Record& record, std::size_t row) const {
    detail::charge_and_fill(
        limit, examined, key.charge->cost, readings_.now, key.entry->created_at(), rows_,
        row, [&](const auto& after, Instant expires_at) __attribute__((always_inline)) {
          commit(key.shard->arena(), key.shard->log(), record, after, expires_at);
        });
  }

  template <class Limited>
  [[gnu::always_inline]] void fill_uncharged(const Limited& limit, const KnownKey& key, const Record& record,
                                             ExaminedPair& examined, std::size_t row) const {
    if (examined.has_record) detail::find_expiry(limit, found_record(key.shard->arena(), record), examined);
    detail::fill_uncharged(limit, examined, rows_, row);
  }

  template <class Limited>
  void show(const Limited& limit, const ExaminedPair& examined, const KnownKey& key, std::size_t row) const {
    detail::charge_and_fill(limit, examined, key.charge->cost, readings_.now, Instant{}, rows_, row,
                            [](const auto&, Instant) {});
  }

  /// Whether all pairs admit the call.
  [[gnu::flatten]] bool examine_all() {
    Status worst = Status::ok;
    for_each_pair([&](const auto& limit, const KnownKey& key, const Record& record, std::size_t row)
                      __attribute__((always_inline)) {
                        examine(limit, key, record, examined_[row]);
                        worst = std::max(worst, examined_[row].verdict.status);
                      });
    return worst == Status::ok;
  }

  [[gnu::flatten]] void charge_all() {
    WriteScope writing(keys_);
    std::size_t row = 0;
    for (const KnownKey& key : keys_) {
      begin_charge(key);
      for_each_pair_of(
          key, row,
          [&](const auto& limit, const KnownKey&, Record& record, std::size_t at)
              __attribute__((always_inline)) { charge(limit, examined_[at], key, record, at); });
      end_charge(key);
    }
    writing.complete();
  }

  [[gnu::noinline]] void show_all() const {
    for_each_pair([&](const auto& limit, const KnownKey& key, const Record&, std::size_t row) {
      show(limit, examined_[row], key, row);
    });
  }

  [[gnu::noinline]] void fill_all_uncharged() {
    for_each_pair([&](const auto& limit, const KnownKey& key, const Record& record, std::size_t row) {
      fill_uncharged(limit, key, record, examined_[row], row);
    });
  }

  [[nodiscard]] bool may_lock() const {
    return std::ranges::any_of(keys_,
                               [](const KnownKey& key) { return key.charge->policy->penalty() != nullptr; });
  }

  void begin_charge(const KnownKey& key) const {
    key.shard->save(*key.entry, key.charge->policy->size());
    date_creation(*key.entry, readings_, newest_creation_);
  }

  void end_charge(const KnownKey& key) const {
    set_sweep_time(*key.entry, readings_);
    key.shard->written(*key.entry);
  }

  const Call& call_;
  std::span<const KnownKey> keys_;
  const Readings& readings_;
  std::atomic<Instant>& newest_creation_;
  const Rows& rows_;
  UninitialisedArray<ExaminedPair, kMostPairs> examined_;
};

}  // namespace

bool decide_plain(const Call& call, std::span<const KnownKey> keys, const Readings& readings,
                  std::atomic<Instant>& newest_creation, const Rows& rows) {
  PlainCall plain(call, keys, readings, newest_creation, rows);
  if (keys.size() == 1 && keys.front().charge->policy->size() == 1) return plain.decide_pair();
  return pairs_of(call.charges) <= kMostPairs && plain.decide_all();
}

}  // namespace overlimit::table
