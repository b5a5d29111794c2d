// TLS 1.3 of cusight-diffstream: what both ends prove, and with which files.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

namespace diffstream {

// The connection is over; the message says why.
class NetError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// One end could not authenticate the other. Trying again does not help.
class NotAuthenticated : public NetError {
  public:
    using NetError::NetError;
};

// TLS 1.3 with a shared key, or with certificates on both ends. Secrets come from files, never from the command line.
struct TlsFiles {
    std::string key;         // --key: 32 bytes as 64 hexadecimal digits
    std::string certificate; // --cert: PEM
    std::string private_key; // --cert-key: PEM
    std::string authority;   // --ca: PEM, the authority that must have signed the other end's certificate
    bool browsers = false;   // the other ends are browsers: only this end has a certificate
    bool any() const { return !key.empty() || !certificate.empty() || !private_key.empty() || !authority.empty(); }
};

class Tls {
  public:
    // Throws sample::Stop if a file is missing or invalid, if others can read a key, and in a build without OpenSSL. host: the
    // name or address that the sender's certificate must have; for a viewer.
    Tls(const TlsFiles &files, bool server, const std::string &host);
    ~Tls(); // wipes the key
    Tls(const Tls &) = delete;
    Tls &operator=(const Tls &) = delete;

    struct Context;
    Context &context() const { return *context_; }

  private:
    std::unique_ptr<Context> context_;
};

struct TlsSession; // one connection

} // namespace diffstream
