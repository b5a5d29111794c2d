// A browser's connection until its viewer is admitted: one HTTP request, for a file of the page or for the stream.
#pragma once

#include "diffstream/net/connection.hpp"
#include "diffstream/web/guesses.hpp"
#include "diffstream/web/options.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace diffstream {

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

class HttpExchange {
  public:
    static constexpr size_t MAX_REQUEST = 8192; // bytes of the header
    using Parser = boost::beast::http::request_parser<boost::beast::http::empty_body>;

    // guesses: those of all exchanges; with nullptr, every token is looked at. address: of the browser.
    explicit HttpExchange(const WebRules &rules, Guesses *guesses = nullptr, std::string address = "")
        : rules_(rules), guesses_(guesses), address_(std::move(address)) {
        parser_.header_limit(MAX_REQUEST);
    }

    // Reads the request's header.
    void read(Connection &connection, Handler done);
    // With what read() ended with: true if the request is for the stream, otherwise write() writes the answer. Throws NetError if none is
    // to be given.
    bool answer(Connection &connection, const ErrorCode &error);
    const Parser::value_type &request() const { return parser_.get(); }
    void write(Connection &connection, Handler done);
    // Why the request was refused, for the log; "" if it was not.
    const std::string &refusal() const { return refusal_; }

  private:
    bool mayAsk(std::string_view target) const;
    void noteGuess(std::string_view target);
    bool say(boost::beast::http::status status, std::string_view type, std::string_view body, bool head);

    const WebRules &rules_;
    Guesses *const guesses_;
    const std::string address_;
    boost::beast::flat_buffer buffer_{MAX_REQUEST};
    Parser parser_;
    boost::beast::http::response<boost::beast::http::string_body> response_;
    std::string refusal_;
};

} // namespace diffstream
