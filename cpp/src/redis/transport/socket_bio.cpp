#include "redis/transport/socket_bio.hpp"

#include <cstddef>
#include <new>
#include <string_view>

namespace overlimit::redis::transport {
namespace {

Wire& wire_of(BIO* bio) { return *static_cast<Wire*>(BIO_get_data(bio)); }

int write_some(BIO* bio, const char* bytes, int size) {
  Wire& wire = wire_of(bio);
  BIO_clear_retry_flags(bio);
  const Transfer transfer = wire.socket.send(std::string_view(bytes, static_cast<std::size_t>(size)));
  if (transfer.count > 0) return static_cast<int>(transfer.count);
  wire.error = transfer.error;
  if (!transfer.error) BIO_set_retry_write(bio);
  return -1;
}

int read_some(BIO* bio, char* buffer, int size) {
  Wire& wire = wire_of(bio);
  BIO_clear_retry_flags(bio);
  if (size <= 0) return 0;
  const Transfer transfer = wire.socket.receive(buffer, static_cast<std::size_t>(size));
  if (transfer.count > 0) return static_cast<int>(transfer.count);
  wire.error = transfer.error;
  wire.end = transfer.end;
  if (transfer.end) return 0;
  if (!transfer.error) BIO_set_retry_read(bio);
  return -1;
}

long control(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
  if (command == BIO_CTRL_FLUSH) return 1;
  return command == BIO_CTRL_EOF && wire_of(bio).end ? 1 : 0;
}

/// Lives as long as the process: connections may be in use until its very end.
BIO_METHOD* new_method() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "overlimit socket");
  if (method == nullptr) throw std::bad_alloc();
  BIO_meth_set_write(method, write_some);
  BIO_meth_set_read(method, read_some);
  BIO_meth_set_ctrl(method, control);
  return method;
}

}  // namespace

BIO* new_socket_bio(Wire& wire) {
  static BIO_METHOD* const method = new_method();
  BIO* bio = BIO_new(method);
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, &wire);
  BIO_set_init(bio, 1);
  return bio;
}

}  // namespace overlimit::redis::transport
