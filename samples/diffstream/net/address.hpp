// Where cusight-diffstream listens and connects, and what both ends prove.
#pragma once

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

struct Address {
    std::string host, port;
    std::string text() const { return host.find(':') == std::string::npos ? host + ":" + port : "[" + host + "]:" + port; }
};

// "host", "host:port", ":port", "[::1]:port". Throws sample::Stop(USAGE).
Address parseAddress(const std::string &text, const std::string &default_host, const std::string &default_port);

// TLS 1.3 with a shared key, or with certificates on both ends. Secrets come from files, never from the command line.
struct TlsFiles {
    std::string key;         // --key: 32 bytes as 64 hexadecimal digits
    std::string certificate; // --cert: PEM
    std::string private_key; // --cert-key: PEM
    std::string authority;   // --ca: PEM, the authority that must have signed the other end's certificate
    bool browsers = false;   // the other ends are browsers: only this end has a certificate
    bool any() const { return !key.empty() || !certificate.empty() || !private_key.empty() || !authority.empty(); }
};

} // namespace diffstream
