// See head.h.
#include "server/http/head.h"

#include <algorithm>
#include <random>

#include "base/error.h"

namespace flare::server::http {
namespace {

constexpr size_t kMaxIdBytes = 128;

std::string percent_decoded(std::string_view text) {
  std::string out;
  const auto hex = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
      out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string fresh_request_id() {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("req_{:016x}", random());
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 529:
      return "Overloaded";
    default:
      return status < 400 ? "OK" : "Error";
  }
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

// What follows the authority of a target in absolute form, whose host counts and not the header's
// (RFC 9112 §3.2.2); any other target as it is.
std::string_view without_authority(std::string_view target, Headers* headers) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    for (auto& [key, value] : *headers)
      if (equal_ignoring_case(key, "host")) value = target.substr(0, end);
    return target.substr(end);
  }
  return target;
}

}  // namespace

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (equal_ignoring_case(key, name)) return value;
  return {};
}

bool Request::has_several(std::string_view name) const {
  const std::string_view first = header(name);
  return std::ranges::any_of(headers, [&](const auto& field) {
    return equal_ignoring_case(field.first, name) && field.second != first;
  });
}

void complete_head(std::string_view target, Request* request) {
  const std::string_view behind = without_authority(target, &request->headers);
  const bool has_path = behind.size() == target.size() || behind.starts_with('/');
  target = behind;
  const size_t question = target.find('?');
  request->path = has_path ? percent_decoded(target.substr(0, question)) : "/";
  if (question != std::string_view::npos) request->query = target.substr(question + 1);
  const std::string_view theirs = request->header("x-request-id");
  const bool keep = !theirs.empty() && theirs.size() <= kMaxIdBytes && is_printable(theirs);
  request->id = keep ? std::string(theirs) : fresh_request_id();
}

void add_header(std::string_view name, std::string_view value, std::string* head) {
  head->append(name).append(": ");
  for (const char c : value) *head += static_cast<unsigned char>(c) < 0x20 && c != '\t' ? '?' : c;
  head->append("\r\n");
}

std::string head_text(int status, const Request& request, const Headers& headers, bool keep_alive) {
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_of(status));
  add_header("Server", "flare", &head);
  add_header("x-request-id", request.id, &head);
  add_header("request-id", request.id, &head);
  for (const auto& [name, value] : request.reply_headers) add_header(name, value, &head);
  for (const auto& [name, value] : headers) add_header(name, value, &head);
  if (!keep_alive) add_header("Connection", "close", &head);
  return head;
}

std::string answer_text(const Request& request, const Answer& answer, bool keep_alive) {
  std::string text = head_text(answer.status, request, answer.headers, keep_alive);
  if (!answer.content_type.empty()) add_header("Content-Type", answer.content_type, &text);
  if (answer.status != 204)
    add_header("Content-Length", fmt::format("{}", answer.body.size()), &text);
  text += "\r\n";
  if (request.method != "HEAD") text += answer.body;
  return text;
}

}  // namespace flare::server::http
