// RFC 3339 dates and times, RFC 4122 UUIDs, addresses and names, written as patterns.
#include "frontend/grammar/formats.h"

#include <string>

#include "frontend/grammar/pattern.h"

namespace flare::frontend::grammar {
namespace {

// RFC 3339 §5.6 full-date: the days of each month, 29 February in leap years alone.
const std::string kLeapYear =
    "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
const std::string kDate =
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|"
    "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|" +
    kLeapYear + "-02-29)";
// full-time. A leap second only where it can be: at the end of a day in UTC.
const std::string kOffset = "(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
const std::string kTime = "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d+)?" + kOffset +
                          "|23:59:60(?:\\.\\d+)?(?:[Zz]|[+-]00:00))";
// RFC 3339 appendix A.
constexpr std::string_view kDuration =
    "P(?:\\d+W|(?:\\d+D|\\d+M(?:\\d+D)?|\\d+Y(?:\\d+M(?:\\d+D)?)?)"
    "(?:T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))?"
    "|T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S))";
constexpr std::string_view kUuid =
    "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";
const std::string kByte = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const std::string kIpv4 = "(?:" + kByte + "\\.){3}" + kByte;
// RFC 1123 labels of 1 to 63; 253 in all.
constexpr std::string_view kHostname =
    "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    "(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*";
// RFC 5321 §4.1.2: dot-string or quoted string; domain or address literal.
constexpr std::string_view kAtom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";

// RFC 4291 §2.2 with at most one "::", and an IPv4 address as the last two groups.
std::string ipv6() {
  const std::string group = "[0-9a-fA-F]{1,4}";
  const std::string last = "(?:" + group + ":" + group + "|" + kIpv4 + ")";
  std::string out = "(?:" + group + ":){6}" + last;
  for (int front = 0; front <= 6; ++front) {
    // `front` groups, "::", then at most 7 - front groups: 16 bits each, an address counts two.
    std::string head;
    if (front > 0)
      head = group + (front > 1 ? "(?::" + group + "){" + std::to_string(front - 1) + "}" : "");
    const int room = 7 - front;
    std::string tail = "(?:" + group + "(?::" + group + "){0," + std::to_string(room - 1) + "})?";
    out += "|" + head + "::" + tail;
    if (room >= 2)
      out += "|" + head + "::(?:" + group + ":){0," + std::to_string(room - 2) + "}" + kIpv4;
  }
  out += "|" + group + "(?::" + group + "){6}::";
  return "(?:" + out + ")";
}

std::string email() {
  const std::string local = "(?:" + std::string(kAtom) + "(?:\\." + std::string(kAtom) +
                            ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")";
  return local + "@(?:" + std::string(kHostname) + "|\\[(?:" + kIpv4 + "|IPv6:" + ipv6() + ")\\])";
}

}  // namespace

std::optional<Lang> format_language(Languages& l, std::string_view format) {
  if (format == "date") return whole_language(l, kDate);
  if (format == "time") return whole_language(l, kTime);
  if (format == "date-time") return whole_language(l, kDate + "[Tt]" + kTime);
  if (format == "duration") return whole_language(l, kDuration);
  if (format == "uuid") return whole_language(l, kUuid);
  if (format == "ipv4") return whole_language(l, kIpv4);
  if (format == "ipv6") return whole_language(l, ipv6());
  if (format == "email") return whole_language(l, email());
  if (format == "hostname")
    return l.both({whole_language(l, kHostname), l.repeat(l.letters(any_code_point()), 1, 253)});
  return std::nullopt;
}

}  // namespace flare::frontend::grammar
