#!/usr/bin/env bash
# usage: fuzz/run.sh [SECONDS [TARGET...]]   (default: 60 seconds for each target)
# Prints each target's seed and how many inputs it tried; `fuzz/run.sh 60 frames` with FUZZ_SEED=n plays a round again.
# Finds are kept in fuzz/artifacts, what was learnt in fuzz/corpus. Needs a C++ compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -gt 0 ] && shift

# libFuzzer needs flags that rustc calls unstable; the toolchain stays the pinned one.
export RUSTC_BOOTSTRAP=1
tools=$PWD/build/cargo-tools
if ! [ -x "$tools/bin/cargo-fuzz" ]; then
    cargo install --quiet --root "$tools" cargo-fuzz --locked
fi
export PATH=$tools/bin:$PATH
# A target folder of its own: the flags differ, so that sharing would rebuild everything twice.
unset CARGO_TARGET_DIR

[ $# -gt 0 ] || set -- $(cargo fuzz list)
failed=()
for target in "$@"; do
    echo "== $target: $seconds s"
    mkdir -p "fuzz/corpus/$target"
    # No sanitizer: our code is safe Rust, and a counting allocator watches the memory.
    cargo fuzz build --sanitizer none "$target" 2>&1 | grep -E '^(warning|error)' -A 5 || true
    log=$(mktemp)
    cargo fuzz run --sanitizer none "$target" "fuzz/corpus/$target" -- -max_total_time="$seconds" -print_final_stats=1 \
        -seed="${FUZZ_SEED:-0}" -rss_limit_mb=2048 -timeout=20 >"$log" 2>&1 && status=0 || status=$?
    grep -E 'INFO: Seed|stat::(number_of_executed_units|average_exec_per_sec|peak_rss_mb)' "$log" || true
    if [ "$status" -ne 0 ]; then
        grep -A 3 'panicked at\|ERROR: libFuzzer' "$log" || true
        tail -n 20 "$log"
        failed+=("$target")
    fi
    rm -f "$log"
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
