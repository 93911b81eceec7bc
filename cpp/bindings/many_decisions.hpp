// What Limiter.hit_many returns: decisions in columns. A Decision is made of a row when it is asked for.
#pragma once

#include <Python.h>

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "charges.hpp"
#include "overlimit/call.hpp"
#include "overlimit/decision.hpp"
#include "overlimit/store.hpp"
#include "overlimit/uninitialised_block.hpp"
#include "store_task.hpp"

namespace overlimit::python {

/// The identifiers of many calls: a row of one, or of a tuple of several, of which duplicates count once.
class IdentifierRows {
 public:
  /// Each identifier may have so many cells. ValueError and TypeError name the row, thrown as PythonError.
  IdentifierRows(PyObject* rows, std::int64_t cells_of_one);
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(PyTuple_GET_SIZE(rows_.get())); }
  /// How many identifiers the rows before this one have.
  [[nodiscard]] std::size_t start(std::size_t row) const { return starts_.empty() ? row : starts_[row]; }
  [[nodiscard]] std::size_t count(std::size_t row) const { return start(row + 1) - start(row); }

  /// Asks the processor to load what a row holds, which lies anywhere: to be called so many rows before.
  static constexpr std::size_t kAhead = 16;
  void prefetch(std::size_t row) const {
    if (row >= size()) return;
    const auto* const given =
        reinterpret_cast<const char*>(PyTuple_GET_ITEM(rows_.get(), static_cast<Py_ssize_t>(row)));
    __builtin_prefetch(given);
    __builtin_prefetch(given + sizeof(PyASCIIObject));  // the bytes of a str
  }

  /// Calls visit(place, identifier, bytes) for each identifier of a row, with its place among those given.
  template <class Visit>
  void for_each(std::size_t row, IdentifierBytes& bytes, const Visit& visit) const {
    PyObject* const given = PyTuple_GET_ITEM(rows_.get(), static_cast<Py_ssize_t>(row));
    if (!PyTuple_Check(given)) return visit(Py_ssize_t{0}, given, bytes.view(given));
    std::array<std::string_view, kMaxIdentifiers> seen;
    std::size_t count = 0;
    for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(given); ++place) {
      PyObject* const identifier = PyTuple_GET_ITEM(given, place);
      const std::string_view view = bytes.view(identifier);
      if (std::find(seen.begin(), seen.begin() + count, view) != seen.begin() + count) continue;
      check_count(count + 1);
      seen[count++] = view;
      visit(place, identifier, view);
    }
  }

 private:
  std::size_t checked_count(std::size_t row, std::int64_t cells_of_one);

  Object rows_;
  std::vector<std::size_t> starts_;  // empty when each row has one identifier
};

/// What many calls cost: one number for all, or a column.
class CostRows {
 public:
  /// Reads an integer, or a list or tuple of as many as there are rows. ValueError and TypeError name the
  /// row, thrown as PythonError.
  CostRows(PyObject* cost, std::size_t rows);

  [[nodiscard]] PyObject* number(std::size_t row) const {
    return is_column_ ? PyTuple_GET_ITEM(given_.get(), static_cast<Py_ssize_t>(row)) : given_.get();
  }
  [[nodiscard]] Cost units(std::size_t row) const {
    return is_column_ ? WholeCost(number(row)).units() : units_of_all_;
  }

 private:
  bool is_column_;
  Object given_;
  Cost units_of_all_ = 0;
};

class ManyDecisions : public std::enable_shared_from_this<ManyDecisions> {
 public:
  /// Reads the arguments. Other threads run Python meanwhile, and signals are noticed. Throws PythonError for
  /// wrong arguments.
  ManyDecisions(PyObject* limiter, PyObject* rows, PyObject* cost, Mode mode,
                std::optional<Duration> timeout);

  /// Decides each row by itself, in order, as often as not all are decided: the next thousand. Returns the
  /// task for it, or nullptr when all have been decided. It must be done before the next one is taken.
  ///
  /// What a store that waits does not decide within its timeout, or this one, follows on_error; with `raise`
  /// the error is thrown by the last step, and only if nothing at all was decided.
  [[nodiscard]] std::unique_ptr<StoreTask> next_step();
  /// Has this thread do all steps that are left.
  void decide();

  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  /// In place of who has decided a row: nobody has, as on_error raises.
  static constexpr Source kNobody{kSources};
  /// The answer to a row, with the places of the limit and of the identifier that bind, or -1.
  struct Answer {
    Decision decision;
    Source source = Source::store;
    std::int16_t limit = -1;
    std::int16_t identifier = -1;
  };
  [[nodiscard]] Answer answer(std::size_t row) const;
  /// A new Decision, or None. Two of one row could be refunded twice, so the caller keeps it.
  [[nodiscard]] Object decision(std::size_t row) const;

 private:
  class Batch;
  class Step;
  static constexpr Instant kUndecided{-1};

  void set_source(std::size_t row, Source source);
  void follow_on_error(const std::vector<std::size_t>& rows, const StoreError& error);
  void decide_here(const std::vector<std::size_t>& rows);
  /// What a decided row was answered, and by which limit in canonical order.
  [[nodiscard]] std::pair<Status, std::size_t> binding(std::size_t row) const;
  [[nodiscard]] Decision folded(std::size_t row) const;
  /// Counts the decisions on these rows for metrics, unless they are peeks.
  void count_decisions(std::size_t first, std::size_t last) const;
  /// The same of rows of a store, each of which has a single pair.
  void count_single_pairs(std::size_t first, std::size_t last) const;
  [[nodiscard]] bool is_decided(std::size_t row) const { return times_[row] != kUndecided; }
  [[nodiscard]] Source source_of(std::size_t row) const {
    if (!is_decided(row)) return kNobody;
    return sources_.empty() ? Source::store : sources_[row];
  }
  /// The policy that has decided a row (borrowed).
  [[nodiscard]] PyObject* policy_of(std::size_t row) const;
  [[nodiscard]] std::size_t first_pair(std::size_t row) const;
  [[nodiscard]] Rows pairs_of_rows(std::size_t first, std::size_t last) const;
  /// The place of a row's identifier among those given, duplicates included.
  [[nodiscard]] std::int16_t place_given(std::size_t row, std::size_t identifier) const;

  LimiterState& limiter_;
  Object kept_;  // the limiter
  Object policy_;
  Mode mode_;
  IdentifierRows rows_;
  CostRows costs_;
  UninitialisedBlock pairs_;  // rows
  std::unique_ptr<Instant[]> times_;
  std::vector<Source> sources_;  // empty while the store has decided all
  std::unique_ptr<TimedCall> timed_;
  std::size_t begun_ = 0;  // rows
  bool is_any_decided_ = false;
  std::exception_ptr failure_;  // the first
};

}  // namespace overlimit::python
