#include "redis/transport/openssl.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#include "overlimit/errors.hpp"
#include "overlimit/forks.hpp"

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

namespace overlimit::redis::transport::openssl {
namespace {

constexpr const char* kVariable = "OVERLIMIT_OPENSSL";
static_assert(sizeof(unsigned long) == sizeof(std::uint64_t),
              "before OpenSSL 3, options were an unsigned long");

#ifdef __APPLE__
constexpr std::array kNames{"/opt/homebrew/opt/openssl@3/lib/libssl.3.dylib",
                            "/usr/local/opt/openssl@3/lib/libssl.3.dylib"};

/// macOS knows what is loaded by its whole path.
void* loaded() {
  for (std::uint32_t i = 0; i < ::_dyld_image_count(); ++i) {
    const char* const path = ::_dyld_get_image_name(i);
    if (path != nullptr && std::string_view(path).ends_with("/libssl.3.dylib"))
      return ::dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  }
  return nullptr;
}
#else
constexpr std::array kNames{"libssl.so.3", "libssl.so.1.1"};

void* loaded() {
  for (const char* name : kNames) {
    if (void* const handle = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return handle;
  }
  return nullptr;
}
#endif

/// Of an interpreter that has it linked in and lets others see it.
void* of_the_program() {
  return ::dlsym(RTLD_DEFAULT, "SSL_CTX_new") != nullptr ? ::dlopen(nullptr, RTLD_NOW) : nullptr;
}

void* of_the_system() {
  for (const char* name : kNames) {
    if (void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return nullptr;
}

/// The library that the environment names; nullptr if it names none.
const char* named_library() {
  const char* const path = std::getenv(kVariable);  // NOLINT(concurrency-mt-unsafe): nothing here sets it
  return path == nullptr || *path == '\0' ? nullptr : path;
}

[[noreturn]] void throw_unusable(const std::string& why) {
  const std::string advice = named_library() != nullptr
                                 ? std::string("correct or unset the environment variable ") + kVariable
                                 : "install the package openssl (with apt-get, dnf, apk or brew), or set the "
                                   "environment variable " +
                                       std::string(kVariable) + " to the path of its libssl";
  throw StoreConfigError("no TLS, as of rediss://, without OpenSSL 3 or 1.1.1: " + why + "; " + advice);
}

void* found() {
  if (const char* const path = named_library()) {
    void* const handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* const why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): each thread has its own
      throw_unusable(std::string(kVariable) + " cannot be loaded (" + why + ")");
    }
    return handle;
  }
  for (const auto search : {loaded, of_the_program, of_the_system}) {
    if (void* const handle = search()) return handle;
  }
  std::string names;
  for (const char* name : kNames) names += (names.empty() ? "" : " nor ") + std::string(name);
  throw_unusable("neither " + names + " can be loaded");
}

/// What was found, as errors say it.
std::string described() {
  const char* const path = named_library();
  return path != nullptr ? "the library '" + std::string(path) + "'" : "the one that was found";
}

template <class Function>
void look_up(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(handle, name));
  if (function == nullptr) throw_unusable(described() + " has no " + name);
}

/// It is never unloaded: connections may be in use until the process ends.
Library load() {
  void* const handle = found();
  Library library;
#define OVERLIMIT_LOOK_UP(result, name, parameters) look_up(handle, #name, library.name);
  OVERLIMIT_OPENSSL_FUNCTIONS(OVERLIMIT_LOOK_UP)
#undef OVERLIMIT_LOOK_UP
  const std::string version = library.OpenSSL_version(0);
  if (!version.starts_with("OpenSSL ") || library.OpenSSL_version_num() < kOldestVersion) {
    throw_unusable(described() + " is " + version);
  }
  return library;
}

}  // namespace

const Library& library() {
  static std::atomic<const Library*> known{nullptr};
  if (const Library* const ready = known.load(std::memory_order_acquire)) return *ready;
  const OutsideForks outside;  // so that no child finds it half made
  static const Library loaded_once = load();
  known.store(&loaded_once, std::memory_order_release);
  return loaded_once;
}

int Library::observe_attempt(unsigned long error) const noexcept {
  constexpr unsigned long kFromSystem = 0x80000000;
  if (!is_3()) return static_cast<int>(error >> 24 & 0xff);
  return (error & kFromSystem) != 0 ? kErrorLibSys : static_cast<int>(error >> 23 & 0xff);
}

int Library::reason_of(unsigned long error) const noexcept {
  if (!is_3()) return static_cast<int>(error & 0xfff);
  return static_cast<int>(error & (observe_attempt(error) == kErrorLibSys ? 0x7fffffff : 0x7fffff));
}

void Library::raise_min_proto_version(Context* context, int version) const {
  if (SSL_CTX_ctrl(context, kCtrlGetMinProtoVersion, 0, nullptr) >= version) return;
  SSL_CTX_ctrl(context, kCtrlSetMinProtoVersion, version, nullptr);
}

void Library::set_session_cache_mode(Context* context, int mode) const {
  SSL_CTX_ctrl(context, kCtrlSetSessCacheMode, mode, nullptr);
}

void Library::set_mode(Context* context, long mode) const { SSL_CTX_ctrl(context, kCtrlMode, mode, nullptr); }

bool Library::set_host_name(Session* session, const char* host) const {
  return SSL_ctrl(session, kCtrlSetTlsextHostname, kNameTypeHostName, const_cast<char*>(host)) == 1;
}

}  // namespace overlimit::redis::transport::openssl
