#include "charges.hpp"

namespace overlimit::python {
namespace {

std::string_view checked_bytes(std::string_view bytes) {
  if (bytes.empty()) {
    raise(PyExc_ValueError, "an identifier must not be empty: name who is limited, such as 'user:42'");
  }
  return bytes;
}

}  // namespace

std::string_view IdentifierBytes::view_of_any(PyObject* identifier) {
  if (PyUnicode_Check(identifier)) {
    Py_ssize_t size = 0;
    if (const char* bytes = PyUnicode_AsUTF8AndSize(identifier, &size)) {
      return checked_bytes({bytes, static_cast<std::size_t>(size)});
    }
    PyErr_Clear();
    return checked_bytes(encode(identifier));
  }
  if (PyBytes_Check(identifier)) {
    return checked_bytes(
        {PyBytes_AS_STRING(identifier), static_cast<std::size_t>(PyBytes_GET_SIZE(identifier))});
  }
  const bool is_several = PyList_Check(identifier) || PyTuple_Check(identifier) || PyAnySet_Check(identifier);
  const bool may_be_cost = PyNumber_Check(identifier) != 0;
  raise_about(PyExc_TypeError,
              is_several ? "an identifier must be a str or bytes, not %U: give several as hit(*identifiers)"
              : may_be_cost
                  ? "an identifier must be a str or bytes such as 'user:42', not %U; a cost is given by "
                    "name, as cost=5"
                  : "an identifier must be a str or bytes such as 'user:42', not %U",
              identifier);
}

// Lone surrogates have no UTF-8 of their own.
std::string_view IdentifierBytes::encode(PyObject* text) {
  encoded_.push_back(required(PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass")));
  PyObject* bytes = encoded_.back().get();
  return {PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
}

void WholeCost::convert() {
  if (PyBool_Check(number_) || !PyIndex_Check(number_)) {
    raise_about(PyExc_TypeError, "cost must be a whole number, not %U", number_);
  }
  converted_ = required(PyNumber_Index(number_));
  number_ = converted_.get();
}

Cost WholeCost::units() const {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number_, &overflow);
  if (value == -1 && PyErr_Occurred() != nullptr) throw PythonError{};
  if (overflow < 0 || (overflow == 0 && value < 0)) {
    raise_about(PyExc_ValueError, "cost must be a whole number from 0, not %U", number_);
  }
  return overflow > 0 || value > kExact ? kExact : value;
}

}  // namespace overlimit::python
