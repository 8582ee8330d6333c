// OpenSSL behind tls.h.
#include "server/http/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace flare::server::http {
namespace {

SSL_CTX* ctx(void* context) { return static_cast<SSL_CTX*>(context); }
SSL* ssl(void* stream) { return static_cast<SSL*>(stream); }

// The reason for the last failure, without the path of OpenSSL's sources.
std::string reason() {
  const unsigned long code = ::ERR_peek_last_error();
  const char* text = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  ::ERR_clear_error();
  return text == nullptr ? "unknown reason" : text;
}

// Clients that also speak HTTP/2 are told that this server does not.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* n_out, const unsigned char* in,
                    unsigned n_in, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  if (::SSL_select_next_proto(&chosen, n_out, kOurs, sizeof kOurs - 1, in, n_in) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

int no_passphrase(char*, int, int, void*) { return 0; }

}  // namespace

TlsContext::TlsContext() : context_(::SSL_CTX_new(::TLS_server_method())) {
  if (context_ == nullptr) throw Error(Code::kInternal, "TLS: {}", reason());
  SSL_CTX* const c = ctx(context_);
  ::SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  ::SSL_CTX_set_options(c, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  ::SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_alpn_select_cb(c, choose_protocol, nullptr);
  ::SSL_CTX_set_default_passwd_cb(c, no_passphrase);
}

TlsContext::~TlsContext() { ::SSL_CTX_free(ctx(context_)); }

std::shared_ptr<const TlsContext> TlsContext::load(const std::string& certificate,
                                                   const std::string& key) {
  for (const std::string& path : {certificate, key}) File::open(path);  // names what is absent
  const std::shared_ptr<TlsContext> made(new TlsContext);
  SSL_CTX* const c = ctx(made->context_);
  if (::SSL_CTX_use_certificate_chain_file(c, certificate.c_str()) != 1)
    throw Error(Code::kInvalid, "{}: {}, a PEM certificate chain expected", certificate, reason());
  if (::SSL_CTX_use_PrivateKey_file(c, key.c_str(), SSL_FILETYPE_PEM) != 1)
    throw Error(Code::kInvalid, "{}: {}, the certificate's PEM key without a passphrase expected",
                key, reason());
  if (::SSL_CTX_check_private_key(c) != 1)
    throw Error(Code::kInvalid, "{}: {}, the key of {} expected", key, reason(), certificate);
  return made;
}

TlsStream::TlsStream(std::shared_ptr<const TlsContext> context, int fd)
    : context_(std::move(context)), stream_(::SSL_new(ctx(context_->context_))) {
  if (stream_ == nullptr || ::SSL_set_fd(ssl(stream_), fd) != 1)
    throw Error(Code::kInternal, "TLS: {}", reason());
  ::SSL_set_accept_state(ssl(stream_));
}

TlsStream::~TlsStream() { ::SSL_free(ssl(stream_)); }

Io TlsStream::outcome(int result) {
  if (result > 0) return Io::kDone;
  switch (::SSL_get_error(ssl(stream_), result)) {
    case SSL_ERROR_WANT_READ:
      return Io::kWantRead;
    case SSL_ERROR_WANT_WRITE:
      return Io::kWantWrite;
    case SSL_ERROR_ZERO_RETURN:
      return Io::kEnd;
    default:
      return Io::kFailed;
  }
}

// The queue of errors is the thread's: what another connection left there must not count.
Io TlsStream::handshake() {
  ::ERR_clear_error();
  return outcome(::SSL_do_handshake(ssl(stream_)));
}

Io TlsStream::read(MutableBytes to, size_t* n) {
  ::ERR_clear_error();
  return outcome(::SSL_read_ex(ssl(stream_), to.data(), to.size(), n));
}

Io TlsStream::write(Bytes from, size_t* n) {
  ::ERR_clear_error();
  return outcome(::SSL_write_ex(ssl(stream_), from.data(), from.size(), n));
}

void TlsStream::close_notify() {
  ::ERR_clear_error();
  if (::SSL_is_init_finished(ssl(stream_)) == 1) ::SSL_shutdown(ssl(stream_));
  ::ERR_clear_error();
}

}  // namespace flare::server::http
