// Key files: who may write them, what a line is; SHA-256 stands for a key in memory.
#include "server/access/key_ring.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/hash/sha256.h"

namespace flare::server {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxKeyBytes = 512, kMaxLabelBytes = 128;
constexpr std::string_view kSpaces = " \t\r";

std::array<std::byte, 32> digest_of(std::string_view key) {
  Sha256 hash;
  hash.update(as_bytes(key));
  return hash.finish();
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

// The first word of `text`, which loses it and the spaces around it.
std::string_view take_word(std::string_view* text) {
  text->remove_prefix(std::min(text->find_first_not_of(kSpaces), text->size()));
  const std::string_view word = text->substr(0, text->find_first_of(kSpaces));
  text->remove_prefix(word.size());
  return word;
}

void check_owner(const File& file) {
  struct stat status{};
  const std::string path = file.path().string();
  if (::fstat(file.fd(), &status) != 0) throw Error(Code::kNotFound, "{}: {}", path, errno_text());
  if (!S_ISREG(status.st_mode)) throw Error(Code::kInvalid, "{}: no file of keys", path);
  const bool is_others = status.st_uid != 0 && ::geteuid() != 0 && status.st_uid != ::geteuid();
  if (is_others)
    throw Error(Code::kInvalid,
                "{}: belongs to another user, who can write it; expected this user or root", path)
        .set_hint("chown the key file to the user that runs the server");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw Error(Code::kInvalid,
                "{}: mode {:o}, others can write it; expected that its owner alone can", path,
                status.st_mode & 07777)
        .set_hint("chmod 600 the key file");
}

}  // namespace

KeyRing KeyRing::read(const std::filesystem::path& path) {
  const File file = File::open(path);
  check_owner(file);
  if (file.size() > kMaxFileBytes)
    throw Error(Code::kInvalid, "{}: {} bytes, expected at most {}", path.string(), file.size(),
                kMaxFileBytes);
  std::string text(file.size(), '\0');
  file.read_at(0, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  KeyRing ring;
  size_t line = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    ring.add_line(rest.substr(0, end), fmt::format("{}: line {}", path.string(), ++line));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::ranges::fill(text, '\0');
  if (ring.keys_.empty())
    throw Error(Code::kInvalid, "{}: holds no key, expected one on a line", path.string());
  return ring;
}

void KeyRing::add_line(std::string_view line, const std::string& where) {
  const std::string_view key = take_word(&line);
  if (key.empty() || key.starts_with('#')) return;
  std::string_view label = take_word(&line);
  if (label.starts_with('#')) {
    label = line = {};
  } else if (const std::string_view more = take_word(&line);
             !more.empty() && !more.starts_with('#')) {
    throw Error(Code::kInvalid, "{}: three words, expected a key and a label", where);
  }
  if (!is_printable(key) || key.size() > kMaxKeyBytes)
    throw Error(Code::kInvalid, "{}: the key is not printable ASCII of at most {} characters",
                where, kMaxKeyBytes);
  if (!is_printable(label) || label.size() > kMaxLabelBytes)
    throw Error(Code::kInvalid, "{}: the label is not printable ASCII of at most {} characters",
                where, kMaxLabelBytes);
  Key added{digest_of(key), std::string(label)};
  if (std::ranges::any_of(keys_, [&](const Key& k) { return k.digest == added.digest; }))
    throw Error(Code::kInvalid, "{}: the key stands on an earlier line too", where);
  if (label.empty()) added.label = "key-" + to_hex(added.digest).substr(0, 8);
  keys_.push_back(std::move(added));
}

const std::string* KeyRing::find(std::string_view key) const {
  const auto digest = digest_of(key);
  const Key* found = nullptr;
  for (const Key& known : keys_) {
    std::byte difference{};
    for (size_t i = 0; i < digest.size(); ++i) difference |= digest[i] ^ known.digest[i];
    if (difference == std::byte{}) found = &known;
  }
  return found == nullptr ? nullptr : &found->label;
}

}  // namespace flare::server
