// A browser's connection until its viewer is admitted: one HTTP request, for a file of the page or for the stream.
#pragma once

#include "diffstream/net/sockets.hpp"
#include "diffstream/web/guesses.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace diffstream {

// The settings of --web, and what its requests must have.
struct WebSettings {
    Address address{"127.0.0.1", ""};     // no port: no browsers
    std::string certificate, private_key; // --web-cert, --web-cert-key: PEM; both empty: no TLS
    std::string token_file;               // --web-token-file
    const char *source = "video";         // what the page says has ended: "recording"
    bool wait = true;                     // for the first viewer; --no-wait
    bool any() const { return !address.port.empty(); }
    bool tls() const { return !certificate.empty() || !private_key.empty(); }
};

// Who may watch: the token, if there is one. Without it, only pages that came from a loopback name may, since any site can send
// a browser to 127.0.0.1.
class WebRules {
  public:
    // Reads the token from its file, which is made if it does not exist, or makes one. Throws sample::Stop.
    explicit WebRules(const WebSettings &settings);
    // "http://127.0.0.1:8080/", with the token if there is one, or with the name of its file.
    std::string address(const Address &listening, bool with_token) const;

    // What a request for `target` gives as the token; "" if nothing, or if none is needed.
    std::string_view tokenOf(std::string_view target) const;
    // "" or why a request for the stream is refused. The values are those of the headers.
    std::string refusal(std::string_view target, std::string_view host, std::string_view origin) const;

  private:
    bool tls_;
    std::string token_file_, token_;
};

// One file of the page, compiled into the program.
struct WebFile {
    std::string_view name, type, content;
};
const std::vector<WebFile> &webFiles();

// Whether this build has the page; otherwise why not.
std::string webProblem();

class Visit {
  public:
    enum class State { PENDING, WATCHING, ANSWERED };
    static constexpr size_t MAX_REQUEST = 8192; // bytes of the header

    // guesses: those of all visits; with nullptr, every token is looked at. address: of the browser.
    explicit Visit(const WebRules &rules, Guesses *guesses = nullptr, std::string address = "")
        : rules_(rules), guesses_(guesses), address_(std::move(address)) {}

    // Reads the request and writes the answer, as far as that is possible without waiting. WATCHING: the request was for the
    // stream, and request() is what a WebSocket needs. Throws NetError for what is no HTTP.
    State advance(Transport &connection);
    bool writing() const { return !answer_.empty(); }
    // Bytes of the request as received.
    const std::string &request() const { return received_; }
    // Why the request was refused, for the log; "" if it was not.
    const std::string &refusal() const { return refusal_; }

  private:
    bool complete();
    bool mayAsk(std::string_view target) const;
    void noteGuess(std::string_view target);
    void answer(unsigned status, std::string_view type, std::string_view body, bool head);

    const WebRules &rules_;
    Guesses *const guesses_;
    const std::string address_;
    std::string received_, answer_, refusal_;
    size_t sent_ = 0;
};

} // namespace diffstream
