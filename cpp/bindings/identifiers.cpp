#include "identifiers.hpp"

namespace overlimit::python {
namespace {

std::string_view checked_bytes(std::string_view bytes) {
  if (bytes.empty()) {
    PyErr_SetString(PyExc_ValueError, "an identifier must not be empty");
    throw PythonError{};
  }
  return bytes;
}

}  // namespace

std::string_view IdentifierBytes::view(PyObject* identifier) {
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
  PyErr_Format(PyExc_TypeError,
               "an identifier is a str or bytes such as 'user:42', not %.100s; cost is a keyword: cost=5",
               Py_TYPE(identifier)->tp_name);
  throw PythonError{};
}

// Lone surrogates have no UTF-8 of their own.
std::string_view IdentifierBytes::encode(PyObject* text) {
  encoded_.push_back(Object::steal(checked(PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass"))));
  PyObject* bytes = encoded_.back().get();
  return {PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
}

void WholeCost::convert() {
  if (PyBool_Check(number_) || !PyIndex_Check(number_)) {
    PyErr_Format(PyExc_TypeError, "cost must be an integer, not %.100s", Py_TYPE(number_)->tp_name);
    throw PythonError{};
  }
  converted_ = Object::steal(checked(PyNumber_Index(number_)));
  number_ = converted_.get();
}

Cost WholeCost::units() const {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number_, &overflow);
  if (value == -1 && PyErr_Occurred() != nullptr) throw PythonError{};
  if (overflow < 0 || (overflow == 0 && value < 0)) {
    PyErr_Format(PyExc_ValueError, "cost must not be negative, got %R", number_);
    throw PythonError{};
  }
  return overflow > 0 || value > kExact ? kExact : value;
}

}  // namespace overlimit::python
