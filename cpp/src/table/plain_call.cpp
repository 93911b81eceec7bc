#include "table/plain_call.hpp"

#include <algorithm>
#include <optional>

#include "overlimit/uninitialised_array.hpp"

// Of an examined pair without a record nothing else is read, which g++ does not see once all is inlined.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace overlimit::table {
namespace {

// More are left to a Transaction.
constexpr std::size_t kMostPairs = 64;

/// What of a charged record its row does not tell.
struct ChargedRow {
  Instant expires_at;
  bool has_cells;  ///< else nothing of what follows is set
  std::size_t dropped;
  std::optional<Cell> pushed;
};

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
          Record& record = *key.entry->begin();
          ExaminedPair examined;
          examine(limit, key, record, examined);
          if (examined.verdict.status != Status::ok) {
            if (may_lock()) return false;
            refuse(limit, key, record, examined, 0);
          } else if (call_.mode == Mode::peek) {
            charge(limit, examined, key, Instant{}, 0, [](const auto&, Instant) {});
          } else {
            WriteScope writing(keys_);
            begin_charge(key);
            charge(
                limit, examined, key, key.entry->created_at(),
                0, [&](const auto& after, Instant expires_at) __attribute__((always_inline)) {
                  commit(key.shard->arena(), key.shard->log(), record, after, expires_at);
                });
            end_charge(key);
            writing.complete();
          }
          return true;
        });
  }

  /// Of several pairs: the row of each is filled as if all admit the call, before the first is written.
  [[gnu::noinline]] bool decide_pairs() {
    if (!charge_all()) {
      if (may_lock()) return false;
      refuse_all();
    } else if (call_.mode == Mode::consume) {
      write_all();
    }
    return true;
  }

 private:
  static std::span<const CompiledLimit> limits_of(const KnownKey& key) {
    return key.charge->policy->limits();
  }

  template <class Limited>
  [[gnu::always_inline]] void examine(const Limited& limit, const KnownKey& key, const Record& record,
                                      ExaminedPair& examined) const {
    const FoundRecord found = found_record(key.shard->arena(), record);
    detail::examine(limit, &found, readings_.now, key.charge->cost, call_.patience, examined);
  }

  template <class Limited, class Write>
  [[gnu::always_inline]] void charge(const Limited& limit, const ExaminedPair& examined, const KnownKey& key,
                                     Instant created_at, std::size_t row, const Write& write) const {
    detail::charge_and_fill(limit, examined, key.charge->cost, readings_.now, created_at, rows_, row, write);
  }

  template <class Limited>
  [[gnu::always_inline]] void refuse(const Limited& limit, const KnownKey& key, const Record& record,
                                     ExaminedPair& examined, std::size_t row) const {
    if (examined.has_record) detail::find_expiry(limit, found_record(key.shard->arena(), record), examined);
    detail::fill_uncharged(limit, examined, rows_, row);
  }

  /// False as soon as a pair does not admit the call.
  [[gnu::flatten]] bool charge_all() {
    std::size_t row = 0;
    for (const KnownKey& key : keys_) {
      const Record* record = key.entry->begin();
      for (const CompiledLimit& each : limits_of(key)) {
        const bool admits = with_algorithm(
            each.limit, [&](const auto& limit) __attribute__((always_inline)) {
              ExaminedPair examined;
              examine(limit, key, *record, examined);
              if (examined.verdict.status != Status::ok) return false;
              charge(
                  limit, examined, key, Instant{},
                  row, [&](const auto& after, Instant expires_at) __attribute__((always_inline)) {
                    ChargedRow& charged = charged_[row];
                    charged.expires_at = expires_at;
                    charged.has_cells = after.pushed || after.dropped > 0;
                    if (!charged.has_cells) return;
                    charged.dropped = after.dropped;
                    charged.pushed = after.pushed;
                  });
              return true;
            });
        if (!admits) return false;
        ++record;
        ++row;
      }
    }
    return true;
  }

  void write_all() {
    WriteScope writing(keys_);
    std::size_t row = 0;
    for (const KnownKey& key : keys_) {
      begin_charge(key);
      for (Record& record : key.entry->first(key.charge->policy->size())) {
        const ChargedRow& charged = charged_[row];
        Receipt& receipt = rows_.receipt[row];
        receipt.created_at = key.entry->created_at();
        record.expires_at = charged.expires_at;
        record.header = receipt.after;
        // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Branch): charge_all() has set it for every row
        if (charged.has_cells) commit_cells(key, record, charged);
        ++row;
      }
      end_charge(key);
    }
    writing.complete();
  }

  [[gnu::noinline]] static void commit_cells(const KnownKey& key, Record& record, const ChargedRow& charged) {
    commit(key.shard->arena(), key.shard->log(), record,
           ChargedRecord<Header>{record.header, charged.dropped, charged.pushed}, charged.expires_at);
  }

  [[gnu::noinline]] void refuse_all() {
    std::size_t row = 0;
    for (const KnownKey& key : keys_) {
      const Record* record = key.entry->begin();
      for (const CompiledLimit& each : limits_of(key)) {
        with_algorithm(each.limit, [&](const auto& limit) {
          ExaminedPair examined;
          examine(limit, key, *record, examined);
          refuse(limit, key, *record, examined, row);
        });
        ++record;
        ++row;
      }
    }
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
  UninitialisedArray<ChargedRow, kMostPairs> charged_;
};

}  // namespace

bool decide_plain(const Call& call, std::span<const KnownKey> keys, const Readings& readings,
                  std::atomic<Instant>& newest_creation, const Rows& rows) {
  PlainCall plain(call, keys, readings, newest_creation, rows);
  if (keys.size() == 1 && keys.front().charge->policy->size() == 1) return plain.decide_pair();
  return pairs_of(call.charges) <= kMostPairs && plain.decide_pairs();
}

bool refuse_locked(const Charge& charge, const Shard& shard, Entry* entry, const Readings& readings,
                   Duration patience, const Rows& rows) {
  const CompiledPolicy& policy = *charge.policy;
  if (entry == nullptr || charge.role != Role::enforce || charge.cost == 0) return false;
  if (!starts_with(*entry, policy.tags())) return false;
  const std::optional<Lock> lock = lock_of(*entry, policy.size(), readings.now);
  if (!lock || !lock->holds(readings.now)) return false;
  if (policy.penalty() != nullptr && extends(*policy.penalty(), *lock)) return false;
  const Record* record = entry->begin();
  for (std::size_t row = 0; row < policy.size(); ++row, ++record) {
    const Limit& limit = policy.limits()[row].limit;
    const FoundRecord found = found_record(shard.arena(), *record);
    const ExaminedPair examined = examine(limit, &found, readings.now, charge.cost, patience);
    fill_refused(limit, examined, Status::locked, lock, readings.now, rows, row);
  }
  return true;
}

}  // namespace overlimit::table
