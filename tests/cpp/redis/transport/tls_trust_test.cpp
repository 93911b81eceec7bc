// Whom TLS connections trust, and whom servers trust.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <thread>

#include "overlimit/errors.hpp"
#include "tls_fixture.hpp"

namespace overlimit::redis::transport {
namespace {

bool answers(const Endpoint& endpoint) {
  Connections connections(endpoint);
  return text(connections, {"PING"}) == "PONG";
}

/// The text of the StoreConfigError that a call ends with; nothing was charged.
std::string refusal(Connections& connections) {
  const auto error = error_of<StoreConfigError>([&] { (void)call(connections, {"PING"}); });
  if (!error) return {};
  EXPECT_FALSE(error->maybe_charged());
  return error->what();
}

std::string refusal(const Endpoint& endpoint) {
  Connections connections(endpoint);
  return refusal(connections);
}

void expect_in(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST_F(TlsTest, RefusesACertificateForAnotherHost) {
  for (const char* certificate : {"elsewhere", "only-cn"}) {
    const TlsServer server(*certificates_, certificate);
    Endpoint endpoint = server.tls();
    expect_in(refusal(endpoint), {"hostname mismatch", "ssl_check_hostname"});
    endpoint.host = "127.0.0.1";
    expect_in(refusal(endpoint), {"IP address mismatch", "ssl_check_hostname"});

    endpoint.tls->check_hostname = false;
    EXPECT_TRUE(answers(endpoint));
    endpoint.tls->ca_file = file("other-ca.pem");
    expect_in(refusal(endpoint), {"ssl_ca_certs"});
  }
}

TEST_F(TlsTest, SpeaksTls12And13AndNothingOlder) {
  for (const char* version : {"TLSv1.2", "TLSv1.3"}) {
    const TlsServer server(*certificates_, "server", {"--tls-protocols", version});
    EXPECT_TRUE(answers(server.tls())) << version;
  }
  const TlsServer old(*certificates_, "server",
                      {"--tls-protocols", "TLSv1.1", "--tls-ciphers", "DEFAULT:@SECLEVEL=0"});
  expect_in(refusal(old.tls()), {"TLS 1.2"});
}

TEST_F(TlsTest, NamesTheOptionWhoseFileCannotBeUsed) {
  Endpoint endpoint = server_->tls();
  endpoint.tls->ca_file = file("missing.pem");
  expect_in(refusal(endpoint), {"ssl_ca_certs", "missing.pem", "No such file"});
  endpoint.tls->ca_file = file("ca.key");
  expect_in(refusal(endpoint), {"ssl_ca_certs", "ca.key"});

  endpoint = server_->tls();
  endpoint.tls->ca_data = "no certificate";
  expect_in(refusal(endpoint), {"ssl_ca_data"});

  endpoint = server_->tls();
  endpoint.tls->certificate_file = file("missing.pem");
  expect_in(refusal(endpoint), {"ssl_certfile", "missing.pem", "No such file"});
  endpoint.tls->certificate_file = file("client.pem");
  expect_in(refusal(endpoint), {"ssl_keyfile", "client.pem"});
  endpoint.tls->key_file = file("server.key");
  expect_in(refusal(endpoint), {"ssl_keyfile", "server.key", "key values mismatch"});
  endpoint.tls->key_file = file("locked.key");
  expect_in(refusal(endpoint), {"ssl_password"});
  endpoint.tls->key_password = "wr0ng";
  const std::string text = refusal(endpoint);
  expect_in(text, {"ssl_password"});
  EXPECT_EQ(text.find("wr0ng"), std::string::npos);
}

class ClientCertificates : public TlsTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(ClientCertificates, AreGivenToAServerThatWantsThem) {
  const TlsServer server(*certificates_, "server",
                         {"--tls-auth-clients", "yes", "--tls-protocols", GetParam()});
  Endpoint endpoint = server.tls();
  for (int i = 0; i < 20; ++i) expect_in(refusal(endpoint), {endpoint.describe(), "ssl_certfile"});

  endpoint.tls->certificate_file = file("client.pem");
  endpoint.tls->key_file = file("client.key");
  EXPECT_TRUE(answers(endpoint));
  endpoint.tls->key_file = file("locked.key");
  endpoint.tls->key_password = "pass phrase";
  EXPECT_TRUE(answers(endpoint));

  endpoint.tls->certificate_file = file("other-ca.pem");
  endpoint.tls->key_file = file("other-ca.key");
  expect_in(refusal(endpoint), {"ssl_certfile"});
}

INSTANTIATE_TEST_SUITE_P(Tls, ClientCertificates, ::testing::Values("TLSv1.2", "TLSv1.3"),
                         [](const auto& each) {
                           return std::string(each.param) == "TLSv1.2" ? "Tls12" : "Tls13";
                         });

TEST_F(TlsTest, ReadsReplacedFilesAgainAfterAFailure) {
  const std::string ca = file("current-ca.pem");
  std::filesystem::copy_file(file("other-ca.pem"), ca);
  Endpoint endpoint = server_->tls();
  endpoint.tls->ca_file = ca;
  Connections connections(endpoint);
  (void)refusal(connections);
  std::filesystem::copy_file(file("ca.pem"), ca, std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(eventually([&] { return answers(connections); }));
}

TEST_F(TlsTest, ReadsAReplacedCertificateOfOursAgainAfterARefusal) {
  const TlsServer strict(*certificates_, "server", {"--tls-auth-clients", "yes"});
  const std::string certificate = file("current.pem");
  const std::string key = file("current.key");
  std::filesystem::copy_file(file("other-ca.pem"), certificate);
  std::filesystem::copy_file(file("other-ca.key"), key);
  Endpoint endpoint = strict.tls();
  endpoint.tls->certificate_file = certificate;
  endpoint.tls->key_file = key;
  Connections connections(endpoint);
  (void)refusal(connections);
  constexpr auto kOverwrite = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy_file(file("client.pem"), certificate, kOverwrite);
  std::filesystem::copy_file(file("client.key"), key, kOverwrite);
  EXPECT_TRUE(eventually([&] { return answers(connections); }));
}

TEST_F(TlsTest, SaysThatAServerAnswersInTheClear) {
  const Listener listener;
  std::thread server([&] {
    const Socket client(::accept(listener.fd(), nullptr, nullptr));
    (void)client.send("-ERR what is this?\r\n");
    char buffer[16];
    while (::recv(client.fd(), buffer, sizeof buffer, 0) > 0) {
    }
  });
  Endpoint endpoint = server_->tls();
  endpoint.host = "127.0.0.1";
  endpoint.port = listener.port();
  expect_in(refusal(endpoint), {"does not use TLS", "redis://"});
  server.join();
}

TEST_F(TlsTest, AUnixSocketIsInTheClearWhateverItIsTold) {
  Endpoint endpoint = server_->server().unix_socket();
  endpoint.tls = TlsOptions{};
  EXPECT_TRUE(answers(endpoint));
}

}  // namespace
}  // namespace overlimit::redis::transport
