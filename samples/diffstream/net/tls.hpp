// TLS 1.3 of cusight-diffstream.
#pragma once

#include "diffstream/net/address.hpp"

#include <boost/asio/ssl/context.hpp>

#include <array>
#include <string>

namespace diffstream {

class Tls {
  public:
    // Throws sample::Stop if a file is missing or invalid, or if others can read a key. host: the name or address that the
    // sender's certificate must have; for a viewer.
    Tls(const TlsFiles &files, bool server, const std::string &host);
    ~Tls(); // wipes the key
    Tls(const Tls &) = delete;
    Tls &operator=(const Tls &) = delete;

    boost::asio::ssl::context &context() const { return context_; }
    bool server() const { return server_; }
    const std::array<unsigned char, 32> &key() const { return key_; }
    // Prepares a connection. Throws NotAuthenticated.
    void prepare(SSL *connection) const;

  private:
    void loadCertificates(const TlsFiles &files);

    mutable boost::asio::ssl::context context_{boost::asio::ssl::context::tls};
    const bool server_, has_key_; // a shared key; otherwise certificates
    const std::string host_;
    std::array<unsigned char, 32> key_{};
};

// Whether this error of a TLS connection means that one end refuses the other. `complete`: the handshake is complete at this
// end; a viewer's handshake is complete before the sender has seen the viewer's certificate.
bool isRefusal(unsigned long code, bool complete);

} // namespace diffstream
