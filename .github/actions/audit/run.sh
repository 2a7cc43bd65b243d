#!/usr/bin/env bash
# What the action runs. Everything comes in by environment variables and is quoted; nothing is evaluated.
# Exit codes are those of the tool: 1 found or tripped, 2 wrong input, 3 a person is needed, 4 the tool failed.
set -uo pipefail

# Wrong input that is seen here has the exit code and the output that the tool gives it.
refuse() {
  echo "::error::$1"
  if [[ -n "${GITHUB_OUTPUT:-}" ]]; then echo "code=2" >> "$GITHUB_OUTPUT"; fi
  exit 2
}

release='^v?[0-9]+\.[0-9]+(\.[0-9]+)*([a-z]+[0-9]+)?$'
words=()
case "${MODE:-audit}" in
  audit)
    words=(sglang)
    if [[ "$TREE" =~ $release && -z "${REPO:-}" ]]; then words+=("--release=${TREE#v}"); else words+=("--commit=$TREE"); fi
    ;;
  guard)
    if [[ -z "${BASE:-}" ]]; then refuse "guard needs the input: base"; fi
    if [[ "$BASE" == -* || "$TREE" == -* ]]; then refuse "base and tree must not begin with a dash"; fi
    words=(guard "$BASE" "$TREE")
    [[ -n "${PATCHSET:-}" ]] && words+=("--patchset=$PATCHSET")
    ;;
  *) refuse "mode is audit or guard" ;;
esac
[[ -n "${FAIL_ON:-}" ]] && words+=("--fail-on=$FAIL_ON")
words+=("--target=$TARGET")
[[ -n "${REPO:-}" ]] && words+=("--repo=$REPO")
[[ -n "${EXCEPTIONS:-}" ]] && words+=("--exceptions=$EXCEPTIONS")

audit "${words[@]}" --format=github
code=$?
# the further runs are answered from the cache
also() {
  if [[ -n "$2" && $code -le 1 ]]; then
    audit "${words[@]}" --format="$1" --output="$2" --quiet || [[ $? -le 1 ]] || code=4
  fi
}
also sarif "${SARIF:-}"
also html "${HTML:-}"
[[ -n "${GITHUB_OUTPUT:-}" ]] && echo "code=$code" >> "$GITHUB_OUTPUT"
exit "$code"
