#include "many_decisions.hpp"

#include "module.hpp"
#include "waits.hpp"

namespace overlimit::python {
namespace {

// How many rows are decided, within one timeout where the store waits, or read, before other threads may run
// Python, and signals are noticed.
constexpr std::size_t kRowsPerStep = 1000;

void let_others_run() {
  { const GilReleased released; }
  if (PyErr_CheckSignals() != 0) throw PythonError{};
}

// Names the row in the message of the error that is set.
void name_row(const char* what, std::size_t row) {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const Object kept[] = {Object::steal(type), Object::steal(value), Object::steal(traceback)};
  const bool is_about_argument = PyErr_GivenExceptionMatches(type, PyExc_ValueError) ||
                                 PyErr_GivenExceptionMatches(type, PyExc_TypeError);
  if (!is_about_argument) {
    PyErr_Restore(Py_XNewRef(type), Py_XNewRef(value), Py_XNewRef(traceback));
    return;
  }
  PyErr_Format(type, "%s: row %zu: %S", what, row, value);
}

template <class Action>
auto naming_row(const char* what, std::size_t row, const Action& action) {
  try {
    return action();
  } catch (const PythonError&) {
    name_row(what, row);
    throw;
  }
}

void count_bases(LimiterState& limiter, std::span<const Call> calls, std::span<const Basis> bases,
                 PyObject* store) {
  LimiterState* const limiters[] = {&limiter};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (bases[i].crowded != 0) count_crowded(limiters, calls[i].charges, bases[i].crowded, store);
    count_basis(limiters, bases[i]);
  }
}

bool is_column(PyObject* given) { return PyList_Check(given) || PyTuple_Check(given); }

// A tuple of our own: nobody changes it meanwhile.
Object own_rows(PyObject* rows) {
  if (!is_column(rows)) raise_about(PyExc_TypeError, "identifiers must be a list or a tuple, not %U", rows);
  if (!PyTuple_CheckExact(rows)) return required(PySequence_Tuple(rows));
  Object own = required(PyTuple_New(PyTuple_GET_SIZE(rows)));
  for (Py_ssize_t row = 0; row < PyTuple_GET_SIZE(rows); ++row) {
    PyTuple_SET_ITEM(own.get(), row, Py_NewRef(PyTuple_GET_ITEM(rows, row)));
  }
  return own;
}

void replace(const Object& tuple, std::size_t row, PyObject* with) {
  PyObject* const replaced = PyTuple_GET_ITEM(tuple.get(), Py_ssize_t(row));
  PyTuple_SET_ITEM(tuple.get(), Py_ssize_t(row), with);
  Py_DECREF(replaced);
}

void check_length(PyObject* column, std::size_t rows) {
  const Py_ssize_t length = PyTuple_GET_SIZE(column);
  if (static_cast<std::size_t>(length) == rows) return;
  raise(PyExc_ValueError, "cost has %zd rows, and identifiers has %zu: give each row one cost", length, rows);
}

}  // namespace

IdentifierRows::IdentifierRows(PyObject* rows, std::int64_t cells_of_one) : rows_(own_rows(rows)) {
  std::size_t total = 0;
  for (std::size_t row = 0; row < size(); ++row) {
    if (row % kRowsPerStep == 0) let_others_run();
    const std::size_t count =
        naming_row("identifiers", row, [&] { return checked_count(row, cells_of_one); });
    if (count != 1 && starts_.empty()) {
      starts_.resize(row + 1);
      for (std::size_t before = 0; before <= row; ++before) starts_[before] = before;
    }
    total += count;
    if (!starts_.empty()) starts_.push_back(total);
  }
}

std::size_t IdentifierRows::checked_count(std::size_t row, std::int64_t cells_of_one) {
  prefetch(row + kAhead);
  PyObject* const given = PyTuple_GET_ITEM(rows_.get(), static_cast<Py_ssize_t>(row));
  if (IdentifierBytes::is_plain(given)) [[likely]] {
    check_cells(cells_of_one);
    return 1;
  }
  if (PyList_Check(given) || (PyTuple_Check(given) && !PyTuple_CheckExact(given))) {
    replace(rows_, row, checked(PySequence_Tuple(given)));
  }
  IdentifierBytes bytes;
  std::size_t count = 0;
  for_each(row, bytes, [&](Py_ssize_t, PyObject*, std::string_view) { ++count; });
  if (count == 0) raise_value_error(kNoIdentifier);
  check_cells(static_cast<std::int64_t>(count) * cells_of_one);
  return count;
}

CostRows::CostRows(PyObject* cost, std::size_t rows)
    : is_column_(is_column(cost)), given_(is_column_ ? own_rows(cost) : Object::borrow(cost)) {
  if (!is_column_) {
    const WholeCost whole(cost);
    units_of_all_ = whole.units();
    given_ = Object::borrow(whole.number());
    return;
  }
  check_length(given_.get(), rows);
  for (std::size_t row = 0; row < rows; ++row) {
    if (row % kRowsPerStep == 0) let_others_run();
    naming_row("cost", row, [&] {
      const WholeCost whole(number(row));
      (void)whole.units();
      if (whole.number() == number(row)) return;
      replace(given_, row, Py_NewRef(whole.number()));
    });
  }
}

/// Some rows as calls of a policy. Borrows the bytes of identifiers that the rows keep.
class ManyDecisions::Batch {
 public:
  Batch(const ManyDecisions& many, PyObject* policy) : many_(many), policy_(policy), model_(**many.timed_) {}

  /// The calls of the rows from `first` to before `last`, valid until the next ones.
  std::span<const Call> calls(std::size_t first, std::size_t last) {
    const CompiledPolicy& policy = compiled(policy_);
    bytes_ = {};
    charges_.clear();
    calls_.clear();
    charges_.reserve(many_.rows_.start(last) - many_.rows_.start(first));
    calls_.reserve(last - first);
    for (std::size_t row = first; row < last; ++row) {
      many_.rows_.prefetch(row + IdentifierRows::kAhead);
      const std::size_t start = charges_.size();
      const Cost units = many_.costs_.units(row);
      many_.rows_.for_each(row, bytes_, [&](Py_ssize_t, PyObject*, std::string_view identifier) {
        charges_.push_back({&policy, identifier, units});
      });
      calls_.push_back(model_);
      calls_.back().charges = std::span<const Charge>(charges_).subspan(start);
    }
    return calls_;
  }

 private:
  const ManyDecisions& many_;
  PyObject* policy_;
  const Call& model_;
  IdentifierBytes bytes_;
  std::vector<Charge> charges_;
  std::vector<Call> calls_;
};

/// The decisions on some rows. What was decided when the store would have waited is not asked again.
class ManyDecisions::Step final : public StoreTask {
 public:
  Step(ManyDecisions& many, std::size_t first, std::size_t last)
      : kept_(many.shared_from_this()),
        many_(many),
        limiter_(&many.limiter_),
        first_(first),
        batch_(many, many.policy_.get()),
        calls_(batch_.calls(first, last)),
        times_(&many.times_[first], calls_.size()),
        bases_(calls_.size()) {}
  [[nodiscard]] std::span<LimiterState* const> limiters() const override { return {&limiter_, 1}; }
  [[nodiscard]] bool is_long() const override { return true; }

  void ask(Store& store, const Interrupted& interrupted) override {
    const auto decided = static_cast<std::size_t>(std::ranges::find(times_, kUndecided) - times_.begin());
    const Rows pairs = many_.pairs_of_rows(first_ + decided, first_ + calls_.size());
    store.decide(calls_.subspan(decided), pairs, times_.subspan(decided), std::span(bases_).subspan(decided),
                 interrupted);
  }

  Object answer() override {
    count();
    many_.is_any_decided_ = true;
    return finished();
  }

  Object answer_without(const StoreError& error) override {
    if (dynamic_cast<const CallerMistake*>(&error) != nullptr) throw;
    count();
    std::vector<std::size_t> undecided;
    for (std::size_t i = 0; i < times_.size(); ++i) {
      if (times_[i] == kUndecided) undecided.push_back(first_ + i);
    }
    many_.is_any_decided_ |= undecided.size() < times_.size();
    if (!many_.failure_) many_.failure_ = std::current_exception();
    many_.follow_on_error(undecided, error);
    return finished();
  }

 private:
  /// The call itself is counted as any.
  void count() {
    limiter_->stats.calls += calls_.size() - 1;
    count_bases(*limiter_, calls_, bases_, limiter_->store_object.get());
    for (std::size_t i = 0; i < bases_.size(); ++i) {
      if (bases_[i].source != Source::store) many_.set_source(first_ + i, bases_[i].source);
    }
  }

  [[nodiscard]] Object finished() const {
    many_.count_decisions(first_, first_ + calls_.size());
    const bool raises = many_.failure_ && !many_.is_any_decided_ && limiter_->on_error == OnError::raise;
    if (raises && many_.begun_ == many_.size()) std::rethrow_exception(many_.failure_);
    return Object::borrow(Py_None);
  }

  std::shared_ptr<ManyDecisions> kept_;
  ManyDecisions& many_;
  LimiterState* limiter_;
  std::size_t first_;
  Batch batch_;
  std::span<const Call> calls_;
  std::span<Instant> times_;
  std::vector<Basis> bases_;
};

ManyDecisions::ManyDecisions(PyObject* limiter, PyObject* rows, PyObject* cost, Mode mode,
                             std::optional<Duration> timeout)
    : limiter_(state_of(limiter)),
      kept_(Object::borrow(limiter)),
      policy_(limiter_.present_policy()),
      mode_(mode),
      rows_(rows, compiled(policy_.get()).max_cells()),
      costs_(cost, rows_.size()),
      pairs_(uninitialised_block(first_pair(rows_.size()) * kRowBytes)),
      times_(std::make_unique_for_overwrite<Instant[]>(rows_.size())) {
  if (size() == 0) return;
  timed_ = std::make_unique<TimedCall>(limiter_, std::span<const Charge>());
  (**timed_).mode = mode;
  (**timed_).timeout = timeout;
  std::fill_n(times_.get(), size(), kUndecided);
}

std::unique_ptr<StoreTask> ManyDecisions::next_step() {
  if (begun_ == size()) return nullptr;
  const std::size_t first = begun_;
  const std::size_t last = std::min(size(), first + kRowsPerStep);
  auto step = std::make_unique<Step>(*this, first, last);
  begun_ = last;
  return step;
}

void ManyDecisions::decide() {
  while (const std::unique_ptr<StoreTask> step = next_step()) {
    perform(*step);
    let_others_run();
  }
}

void ManyDecisions::set_source(std::size_t row, Source source) {
  if (sources_.empty()) sources_.resize(size(), Source::store);
  sources_[row] = source;
}

void ManyDecisions::follow_on_error(const std::vector<std::size_t>& rows, const StoreError& error) {
  LimiterState* const limiters[] = {&limiter_};
  if (limiter_.on_error != OnError::raise || rows.size() < size())
    log_failure(error, limiters, limiter_.on_error);
  if (limiter_.on_error == OnError::local) return decide_here(rows);
  const bool raises = limiter_.on_error == OnError::raise;
  const Decision answer = raises ? Decision{.status = Status::over}
                                 : answer_without_store(limiter_.on_error, error, *limiter_.store);
  const Instant now = (**timed_).reading().value_or(system_now());
  for (const std::size_t row : rows) {
    const Rows pairs = pairs_of_rows(row, row + 1);
    pairs.status[0] = answer.status;
    pairs.retry_after[0] = answer.retry_after;
    times_[row] = now;
    set_source(row, raises ? kNobody : Source::error);
  }
}

void ManyDecisions::decide_here(const std::vector<std::size_t>& rows) {
  const Object fallback = local_fallback_object(limiter_.store_object.get());
  const std::shared_ptr<Store> store = store_from(fallback.get());
  Batch batch(*this, local_policy_of(policy_.get()));
  for (const std::size_t row : rows) {
    Basis basis;
    const std::span<const Call> calls = batch.calls(row, row + 1);
    store->decide(calls, pairs_of_rows(row, row + 1), {&times_[row], 1}, {&basis, 1}, kInterrupted);
    set_source(row, Source::local);
    ++limiter_.stats.local;
    count_bases(limiter_, calls, {&basis, 1}, fallback.get());
  }
}

void ManyDecisions::count_decisions(std::size_t first, std::size_t last) const {
  if (mode_ == Mode::peek) return;
  if (first_pair(last) - first_pair(first) == last - first && sources_.empty())
    return count_single_pairs(first, last);
  for (std::size_t row = first; row < last; ++row) {
    const Source source = source_of(row);
    if (source == kNobody) continue;
    const auto [status, limit] = binding(row);
    counters_of(policy_.get(), limit).add(std::size_t(source) * kStatusNames.size() + std::size_t(status));
  }
}

void ManyDecisions::count_single_pairs(std::size_t first, std::size_t last) const {
  std::array<std::uint64_t, kStatusNames.size()> counts{};
  const Status* const statuses = pairs_of_rows(first, last).status - first;
  for (std::size_t row = first; row < last; ++row) {
    if (is_decided(row)) ++counts[std::size_t(statuses[row])];
  }
  CounterSlot& counters = counters_of(policy_.get(), 0);
  for (std::size_t status = 0; status < counts.size(); ++status) {
    if (counts[status] > 0)
      counters.add(std::size_t(Source::store) * kStatusNames.size() + status, counts[status]);
  }
}

std::pair<Status, std::size_t> ManyDecisions::binding(std::size_t row) const {
  const Rows pairs = pairs_of_rows(row, row + 1);
  const Source source = source_of(row);
  if (pairs.count == 1 || source == Source::error) return {pairs.status[0], 0};
  const Decision decision = folded(row);
  return {decision.status, decision.binding_row % compiled(policy_.get()).size()};
}

Decision ManyDecisions::folded(std::size_t row) const {
  std::array<Charge, kMaxIdentifiers> charges;
  charges.fill({&compiled(policy_of(row)), {}, 0});
  return fold(std::span(charges).first(rows_.count(row)), pairs_of_rows(row, row + 1));
}

PyObject* ManyDecisions::policy_of(std::size_t row) const {
  return source_of(row) == Source::local ? local_policy_of(policy_.get()) : policy_.get();
}

std::size_t ManyDecisions::first_pair(std::size_t row) const {
  return rows_.start(row) * compiled(policy_.get()).size();
}

Rows ManyDecisions::pairs_of_rows(std::size_t first, std::size_t last) const {
  const std::size_t first_of_all = first_pair(first);
  const Rows all = rows_at(pairs_.get(), first_pair(size()));
  return rows_of(all, first_of_all, first_pair(last) - first_of_all);
}

ManyDecisions::Answer ManyDecisions::answer(std::size_t row) const {
  if (!is_decided(row)) return {{.status = Status::over}, kNobody};
  const Rows pairs = pairs_of_rows(row, row + 1);
  const Source source = source_of(row);
  if (source == Source::error || source == kNobody) {
    return {{.status = pairs.status[0], .retry_after = pairs.retry_after[0]}, source};
  }
  const CompiledPolicy& policy = compiled(policy_of(row));
  const Decision decision = folded(row);
  const std::size_t limit = policy.limits()[decision.binding_row % policy.size()].place;
  return {decision, source, static_cast<std::int16_t>(limit),
          place_given(row, decision.binding_row / policy.size())};
}

std::int16_t ManyDecisions::place_given(std::size_t row, std::size_t identifier) const {
  if (rows_.count(row) == 1) return 0;
  IdentifierBytes bytes;
  std::int16_t place = 0;
  std::size_t count = 0;
  rows_.for_each(row, bytes, [&](Py_ssize_t given, PyObject*, std::string_view) {
    if (count++ == identifier) place = static_cast<std::int16_t>(given);
  });
  return place;
}

Object ManyDecisions::decision(std::size_t row) const {
  const Source source = source_of(row);
  if (source == kNobody) return Object::borrow(Py_None);
  if (source == Source::error) {
    NewDecision made;
    made.time() = times_[row];
    return Object::steal(made.finish(answer(row).decision, costs_.number(row), Source::error));
  }
  ChargeList collected;
  const Cost units = costs_.units(row);
  IdentifierBytes bytes;
  rows_.for_each(row, bytes, [&](Py_ssize_t, PyObject* identifier, std::string_view) {
    collected.add(policy_of(row), identifier, units);
  });
  const Rows from = pairs_of_rows(row, row + 1);
  NewDecision made(collected.subjects(), collected.size(), from.count);
  copy_rows(from, made.rows());
  made.time() = times_[row];
  Object finished = Object::steal(made.finish(costs_.number(row), source));
  if (mode_ == Mode::peek) make_final(finished.get());
  return finished;
}

}  // namespace overlimit::python
