#!/usr/bin/env bash
# What the action runs. Everything comes in by environment variables and is quoted; nothing is evaluated.
# Exit codes are those of the tool: 1 found or tripped, 2 wrong input, 3 a person is needed, 4 the tool failed.
set -uo pipefail

release='^v?[0-9]+\.[0-9]+(\.[0-9]+)*([a-z]+[0-9]+)?$'
words=()
case "${MODE:-audit}" in
  audit)
    words=(sglang)
    if [[ "$TREE" =~ $release && -z "${REPO:-}" ]]; then words+=("--release=${TREE#v}"); else words+=("--commit=$TREE"); fi
    ;;
  guard)
    if [[ -z "${BASE:-}" ]]; then echo "::error::guard needs the input: base" >&2; exit 2; fi
    if [[ "$BASE" == -* || "$TREE" == -* ]]; then echo "::error::base and tree must not begin with a dash" >&2; exit 2; fi
    words=(guard "$BASE" "$TREE")
    [[ -n "${PATCHSET:-}" ]] && words+=("--patchset=$PATCHSET")
    ;;
  *) echo "::error::mode is audit or guard" >&2; exit 2 ;;
esac
[[ -n "${FAIL_ON:-}" ]] && words+=("--fail-on=$FAIL_ON")
words+=("--target=$TARGET")
[[ -n "${REPO:-}" ]] && words+=("--repo=$REPO")
[[ -n "${EXCEPTIONS:-}" ]] && words+=("--exceptions=$EXCEPTIONS")

audit "${words[@]}" --format=github
code=$?
if [[ -n "${SARIF:-}" && $code -le 1 ]]; then
  # the second run is answered from the cache
  audit "${words[@]}" --format=sarif --output="$SARIF" --quiet || [[ $? -le 1 ]] || code=4
fi
[[ -n "${GITHUB_OUTPUT:-}" ]] && echo "code=$code" >> "$GITHUB_OUTPUT"
exit "$code"
