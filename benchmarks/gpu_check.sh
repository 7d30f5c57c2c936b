#!/usr/bin/env bash
# All that needs a GPU, on a machine that has one and needs no network: builds, tests, looks for errors of memory and races with
# compute-sanitizer, measures, and writes FOLDER/gpu.md.
#
#     benchmarks/gpu_check.sh [FOLDER]        (benchmarks/results)
#
# What is not installed may lie in third_party/: Catch2/include and nlohmann_json/include, the headers alone. Each stage has its
# limit, all together ATTEND_GPU_SECONDS (470). A stage that fails does not stop the others; the exit status tells.
# PYTHON names the Python that has PyTorch (python3).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=$PWD/build-gpu
logs=$build/check
python=${PYTHON:-python3}
PATH=$PATH:/usr/local/cuda/bin
total=${ATTEND_GPU_SECONDS:-470}
failed=0
rows=()

# Seconds that are left.
left() { echo $((total - SECONDS)); }

# write: what is known so far, so that stopping early loses little.
write() {
  {
    echo "# attend on a GPU"
    echo
    echo "- $(date -u '+%Y-%m-%d %H:%M') UTC, checkout at $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    echo "- $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || echo 'no device')"
    echo "- $(nvcc --version 2>/dev/null | sed -n 's/.*\(release .*\)/nvcc \1/p')"
    echo "- \`benchmarks/gpu_check.sh\`"
    echo
    echo "| stage | outcome | seconds | |"
    echo "|---|---|--:|---|"
    printf '%s\n' "${rows[@]}"
    for log in "$logs"/*.failed; do
      [[ -s $log ]] || continue
      printf '\nThe end of what %s wrote:\n\n```\n' "$(basename "$log" .failed)"
      tail -n 25 "$log" | sed "s#$PWD/##g"
      echo '```'
    done
    if [[ -e $logs/compare.md ]]; then
      echo
      sed 's/^# /## /' "$logs/compare.md"
    fi
  } >"$result"
}

# stage NAME LIMIT [WORD]: this script again, for one of the stages below. What that writes to file descriptor 3 is told in the
# table.
stage() {
  local name=$1 limit=$2 began=$SECONDS status=124 outcome
  ((limit > $(left))) && limit=$(left)
  printf '%4d s  %s\n' "$SECONDS" "$name" >&2
  if ((limit > 0)); then
    timeout -k 5 "$limit" benchmarks/gpu_check.sh --stage "$name" "${@:3}" >"$logs/$name.log" 2>&1 3>"$logs/$name.told"
    status=$?
  fi
  case $status in
    0) outcome=passed ;;
    124 | 137) outcome="**time was up**" ;;
    *) outcome="**failed**" ;;
  esac
  if ((status != 0)); then
    failed=1
    cat "$logs/$name.log" "$logs/$name"/*.failed >"$logs/$name.failed" 2>/dev/null
  fi
  rows+=("| $name | $outcome | $((SECONDS - began)) | $(paste -sd ' ' "$logs/$name.told" 2>/dev/null | sed "s#$PWD/##g") |")
  write
}

device() {
  nvidia-smi -L
  nvidia-smi --query-gpu=name,memory.total,clocks.max.sm --format=csv,noheader | paste -sd ';' >&3
}

# package NAME TARGET: lets CMake find headers that lie in third_party/.
package() {
  local name=$1 target=$2 headers=$PWD/third_party/$1/include at=$build/packages/$1
  [[ -d $headers ]] || return 0
  mkdir -p "$at"
  printf 'if(NOT TARGET %s)\n  add_library(%s INTERFACE IMPORTED)\n  target_include_directories(%s INTERFACE "%s")\nendif()\n' \
    "$target" "$target" "$target" "$headers" >"$at/${name}Config.cmake"
  printf 'set(PACKAGE_VERSION_COMPATIBLE TRUE)\n' >"$at/${name}ConfigVersion.cmake"
  # Catch2's own lists the cases; here a program is one test.
  # shellcheck disable=SC2016
  [[ $name == Catch2 ]] && printf '%s\n' 'function(catch_discover_tests target)' \
    '  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TEST_PREFIX" "PROPERTIES")' \
    '  add_test(NAME "${arg_TEST_PREFIX}all" COMMAND ${target})' 'endfunction()' >"$at/Catch.cmake"
  packages+=("-D${name}_DIR=$at")
}

# configure_with SETTING...: fails where a package is missing.
configure_with() {
  cmake -S . -B "$build" "${packages[@]}" -DCMAKE_BUILD_TYPE=Release -DATTEND_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native \
    -DATTEND_NATIVE=ON -DATTEND_TEXT=OFF -DATTEND_BUILD_EXAMPLES=OFF -DATTEND_INSTALL=OFF -DATTEND_INSTALL_PACKAGES=OFF \
    -DFETCHCONTENT_FULLY_DISCONNECTED=ON "$@"
}
# As much as the packages allow that are here.
configure() {
  packages=()
  package Catch2 Catch2::Catch2
  package nlohmann_json nlohmann_json::nlohmann_json
  command -v ninja >/dev/null && export CMAKE_GENERATOR=Ninja
  configure_with -DATTEND_IO=ON -DATTEND_BUILD_TESTS=ON && return
  grep -q 'could not be fetched' "$logs/configure.log" || return 1
  configure_with -DATTEND_IO=OFF -DATTEND_BUILD_TESTS=ON && echo 'without nlohmann_json: fewer tests' >&3 && return
  configure_with -DATTEND_IO=OFF -DATTEND_BUILD_TESTS=OFF && echo 'without Catch2: no tests' >&3
}

# build TARGET: goes on where a file does not compile.
build() {
  local go_on=(-k)
  [[ -e $build/build.ninja ]] && go_on=(-k 0)
  cmake --build "$build" --target "$1" --parallel "$(nproc)" -- "${go_on[@]}"
}

# in_parts NAME PATTERN COMMAND...: the tests whose names fit the pattern, in as many processes at a time as there are cores, at
# most eight. COMMAND runs the program. Writes what each wrote to NAME/.
in_parts() {
  local name=$1 pattern=$2 program=$build/bin/test_cuda into=$logs/$1 status=0 pids=() pid
  local bad='SUMMARY: [1-9]|Invalid Filter|No test cases matched|No tests ran'
  shift 2
  mkdir -p "$into"
  [[ -x $program ]] || { echo "there is no test_cuda"; return 1; }
  "$program" --list-test-names-only >"$into/names" || true # its status is how many there are
  [[ -s $into/names ]] || "$program" --list-tests --verbosity quiet >"$into/names" || true
  grep -E "$pattern" "$into/names" | sed 's/[]",[\]/\\&/g' >"$into/chosen" # as Catch2 wants names quoted
  split --elide-empty-files -n "r/$(($(nproc) < 8 ? $(nproc) : 8))" "$into/chosen" "$into/part."
  for part in "$into"/part.??; do
    {
      "$@" "$program" --input-file "$part" >"$part.log" 2>&1 && ! grep -qE "$bad" "$part.log" && exit
      mv "$part.log" "$part.failed"
      exit 1
    } &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  echo "$(wc -l <"$into/chosen") cases in ${#pids[@]} processes" >&3
  cat "$into"/part.??.log 2>/dev/null | grep -E 'assertions|SUMMARY' || true
  return "$status"
}

# sanitize TOOL OPTION...
sanitize() {
  command -v compute-sanitizer >/dev/null || { echo "there is no compute-sanitizer" | tee /dev/fd/3; return 1; }
  in_parts "$1" '^cuda: ' compute-sanitizer --tool "$1" --error-exitcode 9 "${@:2}"
}

# benchmark SECONDS
benchmark() {
  "$python" benchmarks/gpu/compare_gpu.py --program "$build/bin/attend_gpu_benchmark" --out "$logs/compare.md" --rounds 3 \
    --seconds 0.3 --limit "$1"
}

run_stage() {
  case $1 in
    device) device ;;
    configure) configure ;;
    build-benchmark) build attend_gpu_benchmark ;;
    build-tests) build cuda ;;
    tests) in_parts tests . env ;;
    benchmark) benchmark "$2" ;;
    memcheck) sanitize memcheck --report-api-errors no ;; # tests ask for more memory than there is, on purpose
    racecheck) sanitize racecheck ;;
  esac
}

if [[ ${1:-} == --stage ]]; then
  run_stage "${@:2}"
  exit
fi

folder=${1:-benchmarks/results}
mkdir -p "$folder" || exit 1
result=$(cd "$folder" && pwd)/gpu.md
rm -rf "$logs"
mkdir -p "$logs"
stage device 20
# torch.compile takes minutes, so it begins at once, beside the builds.
timeout -k 5 240 "$python" benchmarks/gpu/compare_gpu.py --prepare >"$logs/prepare.log" 2>&1 &
prepare=$!
stage configure 60
stage build-benchmark 150
stage build-tests 200
stage tests 60
wait "$prepare" || echo "torch.compile's cache is not full" >&2
# Of the rest, the sanitizers get what is left after the benchmark; what it began last may take a while.
stage benchmark $(($(left) - 90)) $(($(left) - 130))
stage memcheck $(($(left) / 2))
stage racecheck "$(left)"
cat "$result"
exit $failed
