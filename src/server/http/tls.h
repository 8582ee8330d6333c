// TLS of a server: certificate and key, and the encrypted side of one connection.
#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"

namespace flare::server::http {

// TLS 1.2 and later, HTTP/1.1. Immutable, shared by the connections that began with it.
class TlsContext {
 public:
  // PEM files: the chain, the server's own certificate first, and its private key without a
  // passphrase. Errors: kNotFound, kInvalid (no certificate, no key, a key of another certificate).
  static std::shared_ptr<const TlsContext> load(const std::string& certificate,
                                                const std::string& key);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class TlsStream;
  TlsContext();
  void* context_;  // SSL_CTX
};

// What a call on a socket that does not block came to.
enum class Io { kDone, kWantRead, kWantWrite, kEnd, kFailed };

// One connection over a socket that does not block. Confined to one thread at a time; the process
// ignores SIGPIPE.
class TlsStream {
 public:
  TlsStream(std::shared_ptr<const TlsContext> context, int fd);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  Io handshake();
  // kDone: *n > 0 bytes went through.
  Io read(MutableBytes to, size_t* n);
  Io write(Bytes from, size_t* n);
  // Says that nothing more follows; does not wait.
  void close_notify();

 private:
  Io outcome(int result);
  std::shared_ptr<const TlsContext> context_;
  void* stream_;  // SSL
};

}  // namespace flare::server::http
