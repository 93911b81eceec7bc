// Part of module.cpp: the store in shared memory.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>

#include "given.hpp"
#include "hooks.hpp"
#include "object.hpp"
#include "overlimit/shared_memory_store.hpp"
#include "stores.hpp"
#include "waits.hpp"

namespace overlimit::python {

/// Has Python log a warning; called with the GIL or without it.
inline void warn_about_shared_memory(const std::string& message) {
  const GilHeld held;
  try {
    const Object text = text_of(message.c_str());
    call_hook("warn_about_shared_memory", checked(text.get()));
  } catch (const PythonError&) {
    PyErr_WriteUnraisable(nullptr);
  }
}

inline pybind11::dict shared_memory_stats(SharedMemoryStore& store) {
  namespace py = pybind11;
  const SharedMemoryStore::Processes processes = store.processes();
  py::dict counted;
  counted["attached"] = processes.attached;
  counted["alive"] = processes.alive;
  py::dict stats;
  stats["crowded"] = store.crowded_calls();
  stats["processes"] = counted;
  stats["damaged"] = store.damaged_shards();
  stats["unlinked"] = store.is_unlinked();
  return stats;
}

inline void bind_shared_memory_store(pybind11::module_& module) {
  namespace py = pybind11;
  using Pointer = std::shared_ptr<SharedMemoryStore>;
  py::class_<SharedMemoryStore, Store, Pointer>(module, "SharedMemoryStore",
                                                "The core of overlimit.SharedMemoryStore.")
      .def(py::init([](std::string name_or_path, const std::optional<py::int_>& max_keys,
                       const std::optional<py::int_>& max_bytes, unsigned mode, std::int64_t timeout_us) {
             SharedMemoryStore::Options options{.name_or_path = std::move(name_or_path),
                                                .mode = static_cast<mode_t>(mode),
                                                .timeout = Duration(timeout_us),
                                                .warn = warn_about_shared_memory};
             if (max_keys) options.max_keys = size_from(*max_keys, "max_keys", 1);
             if (max_bytes)
               options.max_bytes = size_from(*max_bytes, "max_bytes", SharedMemoryStore::kMinBytes);
             return std::make_shared<SharedMemoryStore>(std::move(options));
           }),
           py::arg("name_or_path"), py::kw_only(), py::arg("max_keys"), py::arg("max_bytes"), py::arg("mode"),
           py::arg("timeout_us"))
      .def("__len__", [](const Pointer& store) { return given(store).size(); })
      .def("__bool__", [](const Pointer& store) { return (given(store), true); })
      .def(
          "stats", [](const Pointer& store) { return shared_memory_stats(given(store)); },
          "Return what this store has counted, as a new dict.")
      .def(
          "unlink", [](const Pointer& store) { given(store).unlink(); },
          "Remove the file, so that processes that open it from now on begin with an empty one.")
      .def_property_readonly(
          "path", [](const Pointer& store) { return given(store).path(); }, "Where the file is, or will be.");
}

}  // namespace overlimit::python
