// Errors that Python has raised, on their way through C++.
#pragma once

#include <Python.h>

#include <memory>

#include "object.hpp"
#include "overlimit/errors.hpp"

namespace overlimit::python {

/// A StoreError that is an object of Python already, and is raised as it is.
class RaisedStoreError final : public StoreError {
 public:
  RaisedStoreError(Kind kind, const std::string& what, bool maybe_charged, Duration retry_after,
                   std::shared_ptr<PyObject> error)
      : StoreError(what, maybe_charged, retry_after), kind_(kind), error_(std::move(error)) {}
  [[nodiscard]] Kind kind() const noexcept override { return kind_; }
  [[nodiscard]] PyObject* error() const noexcept { return error_.get(); }

 private:
  Kind kind_;
  std::shared_ptr<PyObject> error_;
};

/// The exception that is set, which is not set any more.
Object taken_error();

/// Throws an exception of Python: RaisedStoreError if it is one, else PythonError.
[[noreturn]] void throw_error(PyObject* error);

}  // namespace overlimit::python
