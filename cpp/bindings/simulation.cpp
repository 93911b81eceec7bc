// What overlimit.simulation has the core do: the replay of events, whose columns are objects with a buffer,
// such as numpy arrays, and finding lines in access logs.
#include <pybind11/stl.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "given.hpp"
#include "limiter.hpp"
#include "module.hpp"
#include "overlimit/access_lines.hpp"
#include "overlimit/replay.hpp"
#include "policy.hpp"
#include "waits.hpp"

namespace overlimit::python {
namespace {

/// The columns of one call. They are kept from being resized for as long as it lasts.
class ReplayColumns {
 public:
  ReplayColumns(const pybind11::buffer& times, const std::vector<pybind11::buffer>& codes,
                const pybind11::object& costs, const pybind11::object& order, const pybind11::dict& answers)
      : times_(take<std::int64_t>(times, "times", false)) {
    events_.times = {reinterpret_cast<const Instant*>(times_.data()), times_.size()};
    for (const pybind11::buffer& column : codes) {
      events_.columns.push_back(take<std::int32_t>(column, "codes", false).data());
    }
    if (!costs.is_none()) events_.costs = take<Cost>(costs, "costs", false).data();
    if (!order.is_none()) answers_.places = take<std::int64_t>(order, "order", false).data();
    take_answers(answers);
  }

  [[nodiscard]] const ReplayedEvents& events() const { return events_; }
  [[nodiscard]] const ReplayedAnswers& answers() const { return answers_; }

 private:
  template <class Number>
  std::span<Number> take(const pybind11::object& column, const std::string& name, bool writable) {
    if (!pybind11::isinstance<pybind11::buffer>(column)) {
      throw pybind11::type_error(name + " must be a column of numbers, such as a numpy array");
    }
    buffers_.push_back(pybind11::reinterpret_borrow<pybind11::buffer>(column).request(writable));
    const std::span<Number> rows = rows_of<Number>(buffers_.back(), name);
    if (buffers_.size() > 1 && rows.size() != times_.size()) {
      throw pybind11::value_error(name + " must have " + std::to_string(times_.size()) +
                                  " rows, as times has, not " + std::to_string(rows.size()));
    }
    return rows;
  }

  template <class Number>
  void take_answer(const pybind11::dict& columns, const char* name, Number*& rows) {
    if (columns.contains(name)) rows = take<Number>(columns[name], name, true).data();
  }

  void take_answers(const pybind11::dict& columns) {
    take_answer(columns, "allowed", answers_.allowed);
    take_answer(columns, "status", answers_.status);
    take_answer(columns, "remaining", answers_.remaining);
    take_answer(columns, "retry_after", answers_.retry_after);
    take_answer(columns, "reset_after", answers_.reset_after);
    take_answer(columns, "delay", answers_.delay);
    take_answer(columns, "limit", answers_.limit);
    take_answer(columns, "identifier", answers_.identifier);
  }

  std::vector<pybind11::buffer_info> buffers_;
  std::span<std::int64_t> times_;
  ReplayedEvents events_;
  ReplayedAnswers answers_;
};

/// A replay with the policy that it replays.
class BoundReplay {
 public:
  BoundReplay(Object policy, std::vector<std::int32_t> distinct)
      : policy_(std::move(policy)),
        distinct_(std::move(distinct)),
        replay_(compiled(policy_.get()), distinct_) {}

  void run(const ReplayColumns& columns, std::size_t first, std::size_t last) {
    const Use use(is_used_);
    const GilReleased released;
    check(columns.events(), first, last, columns.answers(), distinct_);
    replay_.run(columns.events(), first, last, columns.answers());
  }
  void start_tallies() {
    const Use use(is_used_);
    replay_.start_tallies();
  }
  [[nodiscard]] std::vector<LimitTally> tallies() {
    const Use use(is_used_);
    return replay_.tallies();
  }
  [[nodiscard]] std::int64_t max_cells() const { return compiled(policy_.get()).max_cells(); }

 private:
  /// The use of a replay by one thread; RuntimeError while another uses it.
  class Use : NonCopyable {
   public:
    explicit Use(std::atomic<bool>& is_used) : is_used_(is_used) {
      if (is_used_.exchange(true)) throw std::runtime_error("another thread is using this replay");
    }
    ~Use() { is_used_ = false; }

   private:
    std::atomic<bool>& is_used_;
  };

  Object policy_;
  std::vector<std::int32_t> distinct_;
  Replay replay_;
  std::atomic<bool> is_used_{false};
};

std::shared_ptr<BoundReplay> replay_of(const pybind11::object& limiter, std::vector<std::int32_t> distinct) {
  const auto is_negative = [](std::int32_t count) { return count < 0; };
  if (distinct.empty() || std::ranges::any_of(distinct, is_negative)) {
    throw pybind11::value_error("distinct must have a count from 0 on for each column");
  }
  return with_python_errors([&] {
    return std::make_shared<BoundReplay>(state_of(limiter.ptr()).present_policy(), std::move(distinct));
  });
}

void run(BoundReplay& replay, const pybind11::buffer& times, const std::vector<pybind11::buffer>& codes,
         const pybind11::object& costs, const pybind11::object& order, const pybind11::dict& answers,
         std::size_t first, std::size_t last) {
  replay.run(ReplayColumns(times, codes, costs, order, answers), first, last);
}

pybind11::list tallies(BoundReplay& replay) {
  pybind11::list tallies;
  for (const LimitTally& tally : replay.tallies()) {
    tallies.append(pybind11::make_tuple(tally.refused, tally.refused_alone, tally.least_left, tally.most,
                                        tally.longest_retry_after.seconds()));
  }
  return tallies;
}

pybind11::bytes column_of(const std::vector<std::int64_t>& places) {
  return {reinterpret_cast<const char*>(places.data()), places.size() * sizeof(std::int64_t)};
}

}  // namespace

void bind_replays(pybind11::module_& module) {
  namespace py = pybind11;
  py::class_<BoundReplay, std::shared_ptr<BoundReplay>>(
      module, "Replay", "A limiter's limits and penalty, asked about events at their own times.")
      .def(py::init(&replay_of), py::arg("limiter"), py::arg("distinct"))
      .def("run", bound(run), py::arg("times"), py::arg("codes"), py::arg("costs"), py::arg("order"),
           py::arg("answers"), py::arg("first"), py::arg("last"),
           "Decide the events from first to before last, without the GIL, and write the answers.")
      .def_property_readonly("max_cells", bound(&BoundReplay::max_cells),
                             "Blocks and log entries that one identifier can have under these limits.")
      .def("start_tallies", bound(&BoundReplay::start_tallies), "Count from now on what each limit does.")
      .def("tallies", bound(tallies),
           "Per limit, then of locks: refused, refused_alone, least_left, most, longest_retry_after in "
           "seconds.");
}

void bind_access_logs(pybind11::module_& module) {
  namespace py = pybind11;
  module.def(
      "access_lines",
      [](const py::bytes& log, bool combined) {
        const std::string_view text(log);
        AccessLines found;
        {
          const py::gil_scoped_release released;
          found = access_lines(text, combined);
        }
        return py::make_tuple(column_of(found.ends), column_of(found.plain), column_of(found.ip_ends),
                              column_of(found.quotes));
      },
      py::arg("log"), py::arg("combined"),
      "Where lines end, which are plain, and where their addresses end and quotes are: int64 in bytes.");
}

}  // namespace overlimit::python
