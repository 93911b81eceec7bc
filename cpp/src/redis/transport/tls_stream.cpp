#include "redis/transport/tls_stream.hpp"

#include <openssl/err.h>

#include <cstddef>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "overlimit/forks.hpp"
#include "redis/transport/tls_failure.hpp"

namespace overlimit::redis::transport {
namespace {

BioSocket& bio_socket_of(BIO* bio) { return *static_cast<BioSocket*>(BIO_get_data(bio)); }

int write_some(BIO* bio, const char* bytes, int size) {
  BioSocket& socket = bio_socket_of(bio);
  BIO_clear_retry_flags(bio);
  const Transfer transfer = socket.socket.send(std::string_view(bytes, static_cast<std::size_t>(size)));
  if (transfer.count > 0) return static_cast<int>(transfer.count);
  socket.error = transfer.error;
  if (!transfer.error) BIO_set_retry_write(bio);
  return -1;
}

int read_some(BIO* bio, char* buffer, int size) {
  BioSocket& socket = bio_socket_of(bio);
  BIO_clear_retry_flags(bio);
  if (size <= 0) return 0;
  const Transfer transfer = socket.socket.receive(buffer, static_cast<std::size_t>(size));
  if (transfer.count > 0) return static_cast<int>(transfer.count);
  socket.error = transfer.error;
  socket.end = transfer.end;
  if (transfer.end) return 0;
  if (!transfer.error) BIO_set_retry_read(bio);
  return -1;
}

long control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_FLUSH) return 1;
  return command == BIO_CTRL_EOF && bio_socket_of(bio).end ? 1 : 0;
}

/// Never freed: connections may be in use until the process ends.
BIO_METHOD* new_method() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "overlimit socket");
  if (method == nullptr) throw std::bad_alloc();
  BIO_meth_set_write(method, write_some);
  BIO_meth_set_read(method, read_some);
  BIO_meth_set_ctrl(method, control);
  return method;
}

}  // namespace

BIO* new_socket_bio(BioSocket& socket) {
  static BIO_METHOD* const method = new_method();
  BIO* bio = BIO_new(method);
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, &socket);
  BIO_set_init(bio, 1);
  return bio;
}

namespace {

SSL* new_session(const TlsContext& context) {
  const OutsideForks outside;
  return SSL_new(context.get());
}

}  // namespace

TlsStream::TlsStream(Socket socket, std::shared_ptr<TlsContext> context)
    : context_(std::move(context)), socket_{std::move(socket), {}, false}, session_(new_session(*context_)) {
  const OutsideForks outside;
  if (!session_) throw std::bad_alloc();
  BIO* bio = new_socket_bio(socket_);
  SSL_set_bio(session_.get(), bio, bio);
  SSL_set_connect_state(session_.get());
  const std::string& host = context_->endpoint().host;
  if (!is_address(host) && SSL_set_tlsext_host_name(session_.get(), host.c_str()) != 1) {
    raise_unusable("the host name", context_->endpoint());
  }
}

void TlsStream::Free::operator()(SSL* session) const noexcept {
  const OutsideForks outside;
  SSL_free(session);
}

Transfer TlsStream::send(std::string_view bytes) {
  const OutsideForks outside;
  const std::lock_guard lock(mutex_);
  ERR_clear_error();
  Transfer transfer;
  const int result = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &transfer.count);
  if (result != 1) return no_bytes(result, sending_awaits_);
  sending_awaits_ = POLLOUT;
  return transfer;
}

Transfer TlsStream::receive(char* buffer, std::size_t size) {
  const OutsideForks outside;
  const std::lock_guard lock(mutex_);
  ERR_clear_error();
  Transfer transfer;
  const int result = SSL_read_ex(session_.get(), buffer, size, &transfer.count);
  if (result != 1) return no_bytes(result, receiving_awaits_);
  receiving_awaits_ = POLLIN;
  has_received_ = true;
  return transfer;
}

Transfer TlsStream::no_bytes(int result, std::atomic<short>& awaited) {
  const int kind = SSL_get_error(session_.get(), result);
  if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
    awaited = kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    return {};
  }
  const std::error_code error = take_tls_error();
  raise_if_misconfigured(error);
  if (kind == SSL_ERROR_ZERO_RETURN || socket_.end) return {0, {}, true};
  if (socket_.error) return {0, socket_.error, false};
  return {0, error ? error : std::make_error_code(std::errc::io_error), false};
}

void TlsStream::raise_if_misconfigured(std::error_code error) {
  if (has_received_ || advice_on(error).empty()) return;
  const bool by_us = !SSL_is_init_finished(session_.get());
  if (!by_us && !is_alert(error)) return;
  context_->mark_stale();
  const long verified = SSL_get_verify_result(session_.get());
  if (by_us && !is_alert(error) && context_->endpoint().tls->verify && verified != X509_V_OK) {
    raise_untrusted(verified, context_->endpoint());
  }
  raise_misconfigured(error, context_->endpoint());
}

}  // namespace overlimit::redis::transport
