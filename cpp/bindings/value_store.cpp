// overlimit.stores.ValueStore: a store whose values Python keeps.
#include "overlimit/value_store.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "clock.hpp"
#include "functions.hpp"
#include "given.hpp"
#include "hooks.hpp"
#include "module.hpp"
#include "overlimit/fibers.hpp"
#include "raised_error.hpp"
#include "waits.hpp"

namespace overlimit::python {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

PyTypeObject* step_type = nullptr;

/// What transact() is given. It may be kept, and be called by anybody at any time.
struct StepObject {
  PyObject_HEAD std::shared_ptr<ValueStep> step;  // nullptr: the transaction is over
  TimePoint until;
  std::size_t size;  // the number of its keys
  bool reads_only;
  bool was_called;
  bool has_written;           // whether the last call returned anything to write
  Object raised;              // what a call has raised, for which all others then do
  std::atomic<bool> is_busy;  // as a thread decides in it
};

StepObject& step_of(PyObject* self) { return *reinterpret_cast<StepObject*>(self); }

double seconds_until(TimePoint until) {
  return std::chrono::duration<double>(until - std::chrono::steady_clock::now()).count();
}

/// Bytes of what Python gives for a value, which `kept` keeps alive.
std::optional<std::string_view> value_in(Object given, std::vector<Object>& kept) {
  if (given.get() == Py_None) return std::nullopt;
  if (!PyBytes_Check(given.get())) {
    if (PyObject_CheckBuffer(given.get()) == 0)
      raise_about(PyExc_TypeError, "values must be bytes, or None for a key without one, not %U",
                  given.get());
    given = required(PyBytes_FromObject(given.get()));
  }
  PyObject* const bytes = kept.emplace_back(std::move(given)).get();
  return std::string_view(PyBytes_AS_STRING(bytes), std::size_t(PyBytes_GET_SIZE(bytes)));
}

Object write_of(const ValueWrite& write) {
  Object value = required(PyBytes_FromStringAndSize(write.value.data(), Py_ssize_t(write.value.size())));
  Object seconds = required(PyFloat_FromDouble(write.expires_in.seconds()));
  return named_tuple(write_type(), std::array{std::move(value), std::move(seconds)});
}

Object list_of(const ValueStep::Writes& writes) {
  if (writes.empty()) return Object::borrow(Py_None);
  Object list = required(PyList_New(Py_ssize_t(writes.size())));
  for (std::size_t i = 0; i < writes.size(); ++i) {
    Object each = writes[i] ? write_of(*writes[i]) : Object::borrow(Py_None);
    PyList_SET_ITEM(list.get(), Py_ssize_t(i), each.release());
  }
  return list;
}

/// What step() is given. To read it may run other code, which may take its time: nothing waits for that. No
/// more is read than tells that there are more than `size` values: there may be no end.
class GivenValues : NonCopyable {
 public:
  GivenValues(PyObject* positional, PyObject* named, std::size_t size) {
    static const char* const names[] = {"values", "now", nullptr};
    PyObject* values = nullptr;
    PyObject* now = Py_None;
    if (PyArg_ParseTupleAndKeywords(positional, named, "O|O:step", const_cast<char**>(names), &values,
                                    &now) == 0)
      throw PythonError{};
    const Object iterator = Object::steal(PyObject_GetIter(values));
    if (!iterator && PyErr_ExceptionMatches(PyExc_TypeError) != 0)
      raise(PyExc_TypeError, "values must be a sequence, one for each of the keys");
    if (!iterator) throw PythonError{};
    while (bytes_.size() <= size) {
      Object each = Object::steal(PyIter_Next(iterator.get()));
      if (!each) break;
      bytes_.push_back(value_in(std::move(each), kept_));
    }
    if (PyErr_Occurred() != nullptr) throw PythonError{};
    if (now != Py_None) at_ = instant_from(now, "now");
  }
  [[nodiscard]] ValueStep::Values bytes() const { return bytes_; }
  [[nodiscard]] std::optional<Instant> at() const { return at_; }

 private:
  std::vector<Object> kept_;
  std::vector<std::optional<std::string_view>> bytes_;
  std::optional<Instant> at_;
};

/// Lets one thread at a time into a step, where nothing of a store's runs.
class Entered : NonCopyable {
 public:
  explicit Entered(StepObject& step) : step_(step) {
    if (step.is_busy.exchange(true, std::memory_order_acquire))
      raise(PyExc_RuntimeError, "step is being called already: it is for one thread at a time");
  }
  ~Entered() { leave(step_); }
  static void leave(StepObject& step) {
    step.is_busy.store(false, std::memory_order_release);
    step.is_busy.notify_all();
  }

 private:
  StepObject& step_;
};

Object run(StepObject& self, const GivenValues& given) {
  if (seconds_until(self.until) <= 0) throw StoreTimeout("the store did not hold the values in time");
  const std::size_t count = given.bytes().size();
  if (count > self.size)
    raise(PyExc_ValueError, "values must be as many as the keys: %zu, not more", self.size);
  if (count < self.size)
    raise(PyExc_ValueError, "values must be as many as the keys: %zu, not %zu", self.size, count);
  const ValueStep::Writes writes = self.step->run(given.bytes(), given.at());
  Object list = list_of(writes);
  self.was_called = true;
  self.has_written = !writes.empty();
  return list;
}

/// What an action raises; empty if nothing.
template <class Action>
Object error_of(const Action& action) {
  return guarded(false, [&] { return action(), true; }) ? Object() : taken_error();
}

PyObject* call_step(PyObject* object, PyObject* positional, PyObject* named) {
  StepObject& self = step_of(object);
  return guarded(static_cast<PyObject*>(nullptr), [&]() -> PyObject* {
    std::optional<GivenValues> given;
    Object wrong = error_of([&] { given.emplace(positional, named, self.size); });
    const Entered entered(self);
    if (!self.step)
      raise(PyExc_RuntimeError, "this transaction is over: step is called before transact returns");
    Object writes;
    if (!wrong && !self.raised) wrong = error_of([&] { writes = run(self, *given); });
    if (writes) return writes.release();
    if (!self.raised) self.raised = std::move(wrong);
    self.has_written = false;
    PyObject* const error = self.raised.get();
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    return nullptr;
  });
}

double time_left(StepObject& self) { return std::max(0.0, seconds_until(self.until)); }
bool reads_only(StepObject& self) { return self.reads_only; }

}  // namespace

template <>
struct From<StepObject&> {
  static StepObject& get(PyObject* self) { return step_of(self); }
};

namespace {

void end_step(PyObject* object) {
  StepObject& self = step_of(object);
  PyObject_GC_UnTrack(object);
  self.step.~shared_ptr();
  self.raised.~Object();
  PyTypeObject* const type = Py_TYPE(object);
  type->tp_free(object);
  Py_DECREF(type);
}

int traverse_step(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(step_of(object).raised.get());
  return 0;
}

int clear_step(PyObject* object) {
  step_of(object).raised = Object();
  return 0;
}

PyMethodDef step_methods[] = {
    method<time_left>("time_left",
                      "time_left($self, /)\n--\n\nReturn the seconds that are left, at least 0.0; "
                      "then calling it raises StoreTimeout."),
    {}};
PyGetSetDef step_properties[] = {
    property<reads_only>("reads_only", "Whether nothing will be written, as by a peek."), {}};
PyType_Slot step_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("What a store does with the values that it holds; see ValueStore.transact.")},
    {Py_tp_call, reinterpret_cast<void*>(call_step)},
    {Py_tp_dealloc, reinterpret_cast<void*>(end_step)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_step)},
    {Py_tp_clear, reinterpret_cast<void*>(clear_step)},
    {Py_tp_methods, step_methods},
    {Py_tp_getset, step_properties},
    {0, nullptr}};
PyType_Spec step_spec{"overlimit._core.Step", sizeof(StepObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      step_slots};

Object new_step(std::shared_ptr<ValueStep> step, TimePoint until) {
  Object made = required(step_type->tp_alloc(step_type, 0));
  StepObject& self = step_of(made.get());
  self.size = step->keys().size();
  self.reads_only = step->reads_only();
  new (&self.step) std::shared_ptr<ValueStep>(std::move(step));
  new (&self.raised) Object();
  new (&self.is_busy) std::atomic<bool>(false);
  self.until = until;
  return made;
}

/// Nobody decides in it, and nobody comes in any more. Who is reading what step() was given is not waited
/// for.
void close_step(StepObject& self) {
  while (self.is_busy.exchange(true, std::memory_order_acquire)) {
    const GilReleased others_go_on;
    self.is_busy.wait(true, std::memory_order_relaxed);
  }
  self.step.reset();
  Entered::leave(self);
}

Object keys_of(const ValueStep& step) {
  Object list = required(PyList_New(Py_ssize_t(step.keys().size())));
  Py_ssize_t place = 0;
  for (const std::string& key : step.keys()) {
    PyList_SET_ITEM(list.get(), place++,
                    checked(PyUnicode_FromStringAndSize(key.data(), Py_ssize_t(key.size()))));
  }
  return list;
}

/// A transaction of a store, from the arguments of its transact() to what that has raised.
class OpenTransaction : NonCopyable {
 public:
  OpenTransaction(PyObject* store, const std::shared_ptr<ValueStep>& step, TimePoint until)
      : store_(Object::borrow(store)), keys_(keys_of(*step)), step_(new_step(step, until)) {}
  ~OpenTransaction() { close_step(step_of(step_.get())); }
  [[nodiscard]] PyObject* store() const { return store_.get(); }
  [[nodiscard]] PyObject* keys() const { return keys_.get(); }
  [[nodiscard]] PyObject* step() const { return step_.get(); }
  /// Has an event loop go on with it: the task is returned.
  [[nodiscard]] Object begin() const {
    const Object loops = required(PyImport_ImportModule("overlimit.aio.loops"));  // which the loop has loaded
    const Object begin = required(PyObject_GetAttrString(loops.get(), "begin_transaction"));
    PyObject* const arguments[] = {store_.get(), keys_.get(), step_.get()};
    return required(PyObject_Vectorcall(begin.get(), arguments, 3, nullptr));
  }

  /// Ends it without waiting for the task that goes on, and says whether something may have been written.
  bool give_up(PyObject* task) {
    TakenError error;  // this may be a destructor
    close_step(step_of(step_.get()));
    if (!Object::steal(PyObject_CallMethod(task, "cancel", nullptr))) PyErr_Clear();  // the loop is closed
    error.set();
    return step_of(step_.get()).has_written;
  }

  /// Ends it with what transact() has returned, or nullptr if that has raised. Throws what the call does.
  void end(const Object& returned) {
    StepObject& step = step_of(step_.get());
    const Object error = returned ? Object() : taken_error();
    close_step(step);
    if (error && PyErr_GivenExceptionMatches(error.get(), PyExc_Exception) == 0) throw_error(error.get());
    if (step.raised) throw_error(step.raised.get());
    if (error) throw_failure(error.get(), step.has_written);
    if (!step.was_called) {
      throw StoreUnavailable(std::string(Py_TYPE(store_.get())->tp_name) +
                             ".transact returned without having called step");
    }
  }

 private:
  void throw_failure(PyObject* error, bool has_written) const {
    throw_error(call_hook("store_failure", store_.get(), error, has_written ? Py_True : Py_False).get());
  }

  Object store_;
  Object keys_;
  Object step_;
};

/// Of what is asked of each store; interned, so that Python remembers where it has found them.
struct Names {
  PyObject* transact = interned("transact");
  PyObject* waits = interned("waits");
  PyObject* is_shared = interned("is_shared");
  PyObject* timeout = interned("timeout");
  PyObject* max_keys = interned("max_keys");

 private:
  static PyObject* interned(const char* name) { return checked(PyUnicode_InternFromString(name)); }
};

const Names& names() {
  static const Names interned;
  return interned;
}

/// Its values are those of a Python object, which outlives the calls.
class PythonValueStore final : public ValueStore {
 public:
  explicit PythonValueStore(const pybind11::object& self)
      : self_(required(PyWeakref_NewRef(self.ptr(), nullptr))) {}

  [[nodiscard]] bool is_shared() const override { return is_true(&Names::is_shared); }
  [[nodiscard]] bool waits() const override { return is_true(&Names::waits); }
  [[nodiscard]] Duration timeout() const override {
    return in_python_returning<Duration>([&] { return timeout_of(self().get()); });
  }
  [[nodiscard]] bool is_same_as(const Store& other) const override {
    const auto* const theirs = dynamic_cast<const PythonValueStore*>(&other);
    if (theirs == nullptr) return false;
    return in_python_returning<bool>([&] {
      const Object store = theirs->self();
      const Object name = text_of("is_same_as");
      return truth(required(PyObject_CallMethodOneArg(self().get(), name.get(), store.get())).get());
    });
  }
  Duration ping(std::optional<Duration> timeout, const Interrupted& interrupted) override {
    if (Fibers::current() != nullptr) return ValueStore::ping(timeout, interrupted);
    return in_python_returning<Duration>([&] {
      const Object seconds =
          timeout ? required(PyFloat_FromDouble(timeout->seconds())) : Object::borrow(Py_None);
      const Object name = text_of("ping");
      const Object took = required(PyObject_CallMethodOneArg(self().get(), name.get(), seconds.get()));
      return duration_from(took.get(), "what ping returns");
    });
  }
  /// ping() as it is unless the object has another.
  Duration read_nothing(std::optional<Duration> timeout) { return ValueStore::ping(timeout, {}); }
  void close() override {
    in_python([&] { required(PyObject_CallMethod(self().get(), "close", nullptr)); });
  }

 protected:
  void transact(const std::shared_ptr<ValueStep>& step, TransactionTime& time) override {
    if (Fibers* const fibers = Fibers::current(); fibers != nullptr) return transact_on(*fibers, step, time);
    const GilHeld held;
    const Object store = self();
    OpenTransaction open(store.get(), step, end_of(store.get(), time, *step));
    PyObject* const arguments[] = {open.store(), open.keys(), open.step()};
    const RecursionGuard guard;
    open.end(Object::steal(PyObject_VectorcallMethod(names().transact, arguments, 3, nullptr)));
  }
  [[nodiscard]] std::size_t max_keys() const override {
    return in_python_returning<std::size_t>([&] { return max_keys_of(self().get()); });
  }
  [[nodiscard]] std::vector<std::string> scan(const std::string& prefix) override {
    return in_python_returning<std::vector<std::string>>([&] { return scanned(prefix); });
  }

 private:
  template <class Result, class Action>
  static Result in_python_returning(const Action& action) {
    std::optional<Result> result;
    in_python([&] { result = action(); });
    return *std::move(result);
  }

  static bool truth(PyObject* object) {
    const int answer = PyObject_IsTrue(object);
    if (answer < 0) throw PythonError{};
    return answer == 1;
  }

  [[nodiscard]] Object self() const {
#if PY_VERSION_HEX >= 0x030d0000
    PyObject* object = nullptr;
    if (PyWeakref_GetRef(self_.get(), &object) < 0) throw PythonError{};
    Object found = Object::steal(object);
#else
    PyObject* const object = PyWeakref_GetObject(self_.get());
    Object found = object == Py_None ? Object() : Object::borrow(object);
#endif
    if (!found) throw StoreUnavailable("the store object is gone");
    return found;
  }

  [[nodiscard]] bool is_true(PyObject* Names::*attribute) const {
    return in_python_returning<bool>(
        [&] { return truth(required(PyObject_GetAttr(self().get(), names().*attribute)).get()); });
  }

  static Duration timeout_of(PyObject* self) {
    const Object given = required(PyObject_GetAttr(self, names().timeout));
    const Duration timeout = duration_from(given.get(), "timeout");
    if (timeout <= Duration{} || timeout > kMaxPeriod)
      raise_about(PyExc_ValueError, "timeout must be a number of seconds above 0, not %U", given.get());
    return timeout;
  }

  static std::size_t max_keys_of(PyObject* self) {
    const Object given = required(PyObject_GetAttr(self, names().max_keys));
    const Py_ssize_t most = PyNumber_AsSsize_t(given.get(), nullptr);
    if (most == -1 && PyErr_Occurred() != nullptr) throw PythonError{};
    if (most < 1) raise_about(PyExc_ValueError, "max_keys must be at least 1, not %U", given.get());
    return std::size_t(most);
  }

  /// When the time of a call is over, which may begin now, if the store takes so many keys at all.
  static TimePoint end_of(PyObject* store, TransactionTime& time, const ValueStep& step) {
    const std::size_t most = max_keys_of(store);
    if (step.keys().size() > most) {
      throw CallerMistake("this call has " + std::to_string(step.keys().size()) + " keys, and " +
                          Py_TYPE(store)->tp_name + " takes " + std::to_string(most) +
                          " in one transaction (max_keys): give fewer identifiers and limiters at once");
    }
    if (!time.until) {
      const Duration timeout = time.timeout ? *time.timeout : timeout_of(store);
      time.until = std::chrono::steady_clock::now() + std::chrono::microseconds(timeout.micros());
    }
    return *time.until;
  }

  [[nodiscard]] std::vector<std::string> scanned(const std::string& prefix) const {
    const Object store = self();
    const Object pairs = call_hook("scanned_keys", store.get(), text_of(prefix.c_str()).get());
    std::vector<std::string> keys;
    for (PyObject* const each : members_of(pairs.get())) keys.emplace_back(text_in(each));
    return keys;
  }

  void transact_on(Fibers& fibers, const std::shared_ptr<ValueStep>& step, TransactionTime& time);

  Object self_;  // a weak reference
};

/// What goes on on an event loop, as a task that is awaited.
struct TransactionOfLoop {
  TransactionOfLoop(PyObject* store, const std::shared_ptr<ValueStep>& step, TimePoint until)
      : open(store, step, until) {}

  OpenTransaction open;
  Object task;
};

// On the fiber nothing of Python is touched.
void PythonValueStore::transact_on(Fibers& fibers, const std::shared_ptr<ValueStep>& step,
                                   TransactionTime& time) {
  std::unique_ptr<TransactionOfLoop> under_way;
  PyObject* event = nullptr;
  in_python([&] {
    const Object store = self();
    auto begun = std::make_unique<TransactionOfLoop>(store.get(), step, end_of(store.get(), time, *step));
    event = begun->open.step();
    begun->task = begun->open.begin();
    under_way = std::move(begun);
  });
  const auto left = *time.until - std::chrono::steady_clock::now();
  const Fibers::Woken woken = fibers.wait(event, 1, Fibers::now() + left);
  bool has_written = false;
  in_python([&] {
    const std::unique_ptr<TransactionOfLoop> ending = std::move(under_way);
    if (woken == Fibers::Woken::by_event)
      return ending->open.end(Object::steal(PyObject_CallMethod(ending->task.get(), "result", nullptr)));
    has_written = ending->open.give_up(ending->task.get());
  });
  if (woken == Fibers::Woken::by_signal) throw WaitInterrupted(has_written);
  if (woken == Fibers::Woken::by_deadline)
    throw StoreTimeout("the store did not answer in time", has_written);
}

pybind11::object ping_of(PythonValueStore& store, const pybind11::object& timeout) {
  const std::optional<Duration> longest = store_timeout_from(timeout.ptr());
  Duration took{};
  without_gil([&](const Interrupted&) { took = store.read_nothing(longest); });
  return pybind11::float_(took.seconds());
}

}  // namespace

void bind_value_store(pybind11::module_& module) {
  namespace py = pybind11;
  with_python_errors([&] { step_type = add_type(module.ptr(), step_spec); });
  py::class_<PythonValueStore, Store, std::shared_ptr<PythonValueStore>>(
      module, "ValueStore", "The core of overlimit.stores.ValueStore.")
      .def(py::init([](const py::object& self) {
             return with_python_errors([&] { return std::make_shared<PythonValueStore>(self); });
           }),
           py::arg("store"), py::pos_only())
      .def("_ping", bound(ping_of), py::arg("timeout"),
           "Read a key that is nobody's, and return the seconds it took.");
}

}  // namespace overlimit::python
