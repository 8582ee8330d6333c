// Where a server listens: paths, sockets of a service manager, TLS.
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/test_support.h"
#include "server/http/client_fixture.h"
#include "server/http/listener.h"
#include "server/http/tls.h"

namespace flare::server::http {
namespace {

Options at_path(const std::filesystem::path& path) {
  Options options;
  options.tcp = false;
  options.unix_path = path;
  return options;
}

TEST(Listen, OnAPathThatOnlyItsOwnerMayUse) {
  const TemporaryFolder folder;
  const std::string path = folder / "s";
  {
    const Server server(at_path(path), echo);
    EXPECT_EQ(server.port(), 0);
    EXPECT_EQ(server.urls(), std::vector<std::string>{"unix:" + path});
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    RawClient client(path);
    client.send(kGet);
    EXPECT_EQ(client.response().second, "GET /?||");
    EXPECT_EQ(code_of([&] { Server(at_path(path), echo); }), Code::kNetwork);  // in use
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Listen, TakesThePlaceOfAStaleSocketAndOfNothingElse) {
  const TemporaryFolder folder;
  const std::string path = folder / "s";
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(left, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(left);  // the path stays
  {
    const Server server(at_path(path), echo);
    RawClient client(path);
    client.send(kGet);
    EXPECT_EQ(client.response().second, "GET /?||");
  }
  folder.write("file", "precious");
  EXPECT_EQ(code_of([&] { Server(at_path(folder / "file"), echo); }), Code::kExists);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file"});
  EXPECT_EQ(code_of([&] { Server(at_path(folder / std::string(200, 'x')), echo); }), Code::kUsage);
  EXPECT_EQ(code_of([&] { Server(at_path(folder / "none" / "s"), echo); }), Code::kNetwork);
}

TEST(Listen, OnSocketsThatAServiceManagerOpened) {
  Listener opened = Listener::tcp("127.0.0.1", 0);
  Options options;
  options.inherited = {::dup(opened.fd())};
  EXPECT_TRUE(is_local_only(options));
  EXPECT_TRUE(listens_on_network(options));
  const Server server(options, echo);
  EXPECT_EQ(server.port(), opened.port());
  RawClient client(opened.port());
  client.send(kGet);
  EXPECT_EQ(client.response().second, "GET /?||");
  options.inherited = {0};
  EXPECT_EQ(code_of([&] { Server(options, echo); }), Code::kUsage);
}

TEST(Listen, LocalAddressesAreTold) {
  const auto is_local = [](const char* host) {
    Options options;
    options.host = host;
    return is_local_only(options);
  };
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1"})
    EXPECT_TRUE(is_local(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "127.evil.example"})
    EXPECT_FALSE(is_local(host)) << host;
  EXPECT_TRUE(is_local_only(at_path("/x")));
  EXPECT_FALSE(listens_on_network(at_path("/x")));
}

// A self-signed certificate and its key as PEM files.
struct Identity {
  explicit Identity(const TemporaryFolder& folder, const std::string& name)
      : certificate(folder / (name + ".pem")), key(folder / (name + ".key")) {
    EVP_PKEY* const pair = ::EVP_EC_gen("P-256");
    X509* const x = ::X509_new();
    ::X509_set_version(x, 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(x), 1);
    ::X509_gmtime_adj(::X509_getm_notBefore(x), -60);
    ::X509_gmtime_adj(::X509_getm_notAfter(x), 3600);
    ::X509_set_pubkey(x, pair);
    X509_NAME* const subject = ::X509_get_subject_name(x);
    ::X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    ::X509_set_issuer_name(x, subject);
    ::X509_sign(x, pair, ::EVP_sha256());
    if (FILE* const file = ::fopen(certificate.c_str(), "w")) {
      ::PEM_write_X509(file, x);
      ::fclose(file);
    }
    if (FILE* const file = ::fopen(key.c_str(), "w")) {
      ::PEM_write_PrivateKey(file, pair, nullptr, nullptr, 0, nullptr, nullptr);
      ::fclose(file);
    }
    ::X509_free(x);
    ::EVP_PKEY_free(pair);
  }
  const std::string certificate, key;
};

// OpenSSL's own client.
class TlsClient {
 public:
  TlsClient(uint16_t port, int most = TLS1_3_VERSION)
      : socket_(port), context_(::SSL_CTX_new(::TLS_client_method())) {
    ::SSL_CTX_set_max_proto_version(context_, most);
    ::SSL_CTX_set_security_level(context_, 0);
    ::SSL_CTX_set_alpn_protos(context_, reinterpret_cast<const unsigned char*>("\2h2\x08http/1.1"),
                              12);
    stream_ = ::SSL_new(context_);
    ::SSL_set_fd(stream_, socket_.fd());
    connected_ = ::SSL_connect(stream_) == 1;
  }
  ~TlsClient() {
    ::SSL_free(stream_);
    ::SSL_CTX_free(context_);
  }
  bool connected() const { return connected_; }
  std::string version() const { return ::SSL_get_version(stream_); }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned n = 0;
    ::SSL_get0_alpn_selected(stream_, &name, &n);
    return {reinterpret_cast<const char*>(name), n};
  }
  std::string subject() const {
    X509* const x = ::SSL_get1_peer_certificate(stream_);
    char text[64] = {};
    ::X509_NAME_get_text_by_NID(::X509_get_subject_name(x), NID_commonName, text, sizeof text);
    ::X509_free(x);
    return text;
  }
  void send(std::string_view bytes) {
    ::SSL_write(stream_, bytes.data(), static_cast<int>(bytes.size()));
  }
  // Up to `mark`, or what came before the end.
  std::string read_until(std::string_view mark) {
    std::string all;
    char c;
    while (!all.ends_with(mark) && ::SSL_read(stream_, &c, 1) == 1) all += c;
    return all;
  }
  RawClient& socket() { return socket_; }

 private:
  RawClient socket_;
  SSL_CTX* context_;
  SSL* stream_ = nullptr;
  bool connected_ = false;
};

class Tls : public testing::Test {
 protected:
  Tls() { ::signal(SIGPIPE, SIG_IGN); }
  Options options() const {
    Options options = local();
    options.tls_certificate = identity_.certificate;
    options.tls_key = identity_.key;
    return options;
  }
  TemporaryFolder folder_;
  Identity identity_{folder_, "first"};
};

TEST_F(Tls, ServesWholeAnswersAndKeepsTheConnection) {
  const Server server(options(), echo);
  EXPECT_TRUE(server.urls()[0].starts_with("https://127.0.0.1:"));
  TlsClient client(server.port());
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(client.version(), "TLSv1.3");
  EXPECT_EQ(client.protocol(), "http/1.1");
  const std::string body(300'000, 'b');
  for (int i = 0; i < 2; ++i) {
    client.send(
        fmt::format("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.size()) +
        body);
    client.read_until("\r\n\r\n");
    EXPECT_EQ(client.read_until("b" + std::string(1, 'b')).substr(0, 9), "POST /?||");
    size_t n = 2;
    while (n < body.size()) n += client.read_until("b").size();
    EXPECT_EQ(n, body.size());
  }
}

TEST_F(Tls, StreamsAndNoticesWhoLeaves) {
  Stage stage;
  const Server server(options(), stage.handler());
  TlsClient client(server.port());
  client.send(kGet);
  const auto exchange = stage.next();
  exchange->begin_stream();
  client.read_until("\r\n\r\n");
  exchange->write("data: one\n\n");
  EXPECT_TRUE(client.read_until("one\n\n").ends_with("one\n\n"));
  client.socket().close();
  EXPECT_TRUE(told_gone(*exchange));
}

TEST_F(Tls, OldVersionsAndPlainTextGetNothing) {
  Options quick = options();
  quick.header_seconds = 1;
  const Server server(quick, echo);
  EXPECT_TRUE(TlsClient(server.port(), TLS1_2_VERSION).connected());
  EXPECT_FALSE(TlsClient(server.port(), TLS1_1_VERSION).connected());
  const std::string plain = last_words(server, kGet);
  EXPECT_EQ(plain.find("HTTP"), std::string::npos);
  RawClient silent(server.port());
  silent.read_to_end();  // no handshake within the time: closed
  EXPECT_TRUE(TlsClient(server.port()).connected());
}

TEST_F(Tls, ANewCertificateIsForNewConnections) {
  Server server(options(), echo);
  TlsClient before(server.port());
  EXPECT_EQ(before.subject(), "first");
  const Identity second(folder_, "second");
  server.set_tls(TlsContext::load(second.certificate, second.key));
  before.send(kGet);  // an answer after the change: it has been made
  EXPECT_NE(before.read_until("\r\n\r\n"), "");
  EXPECT_EQ(TlsClient(server.port()).subject(), "second");
}

TEST_F(Tls, WrongFilesAreNamed) {
  const Identity other(folder_, "other");
  const std::string none = folder_ / "none", junk = folder_.write("junk", "no PEM");
  EXPECT_EQ(code_of([&] { TlsContext::load(none, identity_.key); }), Code::kNotFound);
  for (const auto& [certificate, key, named] :
       {std::tuple(junk, identity_.key, junk), std::tuple(identity_.certificate, junk, junk),
        std::tuple(identity_.certificate, other.key, other.key),
        std::tuple(identity_.key, identity_.key, identity_.key)}) {
    const Error error = error_of([&] { TlsContext::load(certificate, key); });
    EXPECT_EQ(error.code(), Code::kInvalid);
    EXPECT_NE(error.message().find(named), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace flare::server::http
