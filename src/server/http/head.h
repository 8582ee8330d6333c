// Heads of requests and answers as text and data.
#pragma once

#include <string>
#include <string_view>

#include "server/http/http.h"

namespace flare::server::http {

// Fills path, query and id from the target and the headers of a request.
void complete_head(std::string_view target, Request* request);

// "HTTP/1.1 200 OK" and the lines every answer has; the caller ends it with "\r\n". Bytes that
// would end a line are replaced.
std::string head_text(int status, const Request& request, const Headers& headers, bool keep_alive);
void add_header(std::string_view name, std::string_view value, std::string* head);
// A whole answer.
std::string answer_text(const Request& request, const Answer& answer, bool keep_alive);

}  // namespace flare::server::http
