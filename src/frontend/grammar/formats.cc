// RFC 3339 dates and times, RFC 4122 UUIDs, addresses and names, written as patterns.
#include "frontend/grammar/formats.h"

#include <string>

#include "base/error.h"
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
const std::string kOffset = "(?:[Zz]|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
const std::string kFraction = "(?:\\.\\d+)?";
// full-time without leap seconds.
const std::string kTime = "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d" + kFraction + kOffset;
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

// A leap second only where it can be: at 23:59:60 UTC. Hours and minutes of an offset are paired
// with those of the local time by two patterns, of which a time has to match both.
Lang leap_second(Languages& l) {
  const auto two = [](int value) { return fmt::format("{:02}", value); };
  std::string hours, minutes;
  for (int h = 0; h < 24; ++h)
    // East, local time is 23:59 + offset, which carries unless the offset is whole hours; west, it
    // is 23:59 - offset, which never borrows.
    hours += fmt::format("|{}:\\d\\d:60{}(?:\\+(?:{}:00|{}:(?:0[1-9]|[1-5]\\d))|-{}:\\d\\d)",
                         two(h), kFraction, two((h + 1) % 24), two(h), two(23 - h));
  for (int m = 0; m < 60; ++m)
    minutes += fmt::format("|\\d\\d:{}:60{}(?:\\+\\d\\d:{}|-\\d\\d:{})", two(m), kFraction,
                           two((m + 1) % 60), two(59 - m));
  const Lang offset =
      l.both({whole_language(l, hours.substr(1)), whole_language(l, minutes.substr(1))});
  return l.either({whole_language(l, "23:59:60" + kFraction + "[Zz]"), offset});
}

Lang full_time(Languages& l) { return l.either({whole_language(l, kTime), leap_second(l)}); }

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
  if (format == "time") return full_time(l);
  if (format == "date-time") return l.concat(whole_language(l, kDate + "[Tt]"), full_time(l));
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
