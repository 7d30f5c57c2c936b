#!/usr/bin/env bash
# All that needs a GPU, on a machine that is lent for minutes at a time and has no network. One call takes ATTEND_GPU_SECONDS at
# most (560), and the next one goes on where it stopped: what was built, passed or failed is kept in build-gpu/, as long as no
# file of the checkout changes. Each writes FOLDER/gpu.md, with what is known so far.
#
#     benchmarks/gpu_check.sh [--out FOLDER] [--programs FOLDER] [STAGE...]
#
#   --out FOLDER       where gpu.md goes (benchmarks/results)
#   --programs FOLDER  test_cuda and attend_gpu_benchmark, built before: nothing is built
#
# Without a STAGE all that has not ended yet, in this order; a named one that has ended begins anew.
#
#   packages   looks for what the others need, and ends the call within a second if something is missing; part of every call
#   build      test_cuda and attend_gpu_benchmark
#   test       all cases of test_cuda: kernels, operations, training, the comparisons with PyTorch's values
#   benchmark  gpu/compare_gpu.py, part by part
#   sanitize   the cases of the back end under compute-sanitizer's memcheck, then racecheck
#
# Exit status: 0 passed, 1 something failed, 75 the time was up: call again.
#
# The programs can be built on a machine without a GPU, by the stage `build`, and their folder build-gpu/bin carried along:
# ATTEND_GPU_ARCHITECTURES (90 if there is no GPU) says for which. PYTHON names the Python that has PyTorch (python3).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
order=(packages build test benchmark sanitize)
build=$PWD/build-gpu
logs=$build/check
python=${PYTHON:-python3}
PATH=$PATH:/usr/local/cuda/bin
total=${ATTEND_GPU_SECONDS:-560}
most_processes=$(($(nproc) < 8 ? $(nproc) : 8))
time_up=75
out=benchmarks/results
programs=$build/bin
built_before=
named=()
prepare='' device='' has_torch='' cublas=()

while (($#)); do
  case $1 in
    --out)
      out=${2:?--out wants a folder}
      shift 2
      ;;
    --programs)
      programs=$(cd "${2:?--programs wants a folder}" && pwd) || exit 2
      built_before=1
      shift 2
      ;;
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;;
    *)
      if [[ " ${order[*]} " != *" $1 "* ]]; then
        echo "gpu_check.sh: $1 is no stage and no option, expected one of: ${order[*]} --out --programs" >&2
        exit 2
      fi
      named+=("$1")
      shift
      ;;
  esac
done

# Seconds that are left.
left() { echo $((total - SECONDS)); }

# tell TEXT: for the stage's row of the table.
tell() { echo "$*" >>"$logs/$stage.told"; }

# limited COMMAND...: ends it when the time is up, with status $time_up.
limited() {
  local status limit
  limit=$(left)
  ((limit > 0)) || return $time_up # `timeout 0` would be no limit at all
  timeout -k 5 "$limit" "$@"
  status=$?
  ((status == 124 || status == 137)) && return $time_up
  return $status
}

# write: what is known so far.
write() {
  local name seconds outcome log
  {
    echo "# attend on a GPU"
    echo
    echo "- $(date -u '+%Y-%m-%d %H:%M') UTC, checkout at $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    echo "- $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || echo 'no device')"
    echo "- $(nvcc --version 2>/dev/null | sed -n 's/.*\(release .*\)/nvcc \1/p')"
    echo "- \`benchmarks/gpu_check.sh\`"
    echo
    echo "| stage | outcome | seconds, of all calls | |"
    echo "|---|---|--:|---|"
    for name in "${order[@]}"; do
      outcome=$(cat "$logs/$name.outcome" 2>/dev/null || echo "not begun")
      seconds=$(cat "$logs/$name.seconds" 2>/dev/null || echo 0)
      echo "| $name | $outcome | $seconds | $(paste -sd ';' "$logs/$name.told" 2>/dev/null | sed "s#$PWD/##g; s/;/; /g") |"
    done
    for log in "$logs"/*.log "$logs"/*/*.failed; do
      [[ -s $log ]] || continue
      [[ $log == *.log && $(cat "${log%.log}.outcome" 2>/dev/null) != *failed* ]] && continue
      printf '\nThe end of what %s wrote:\n\n```\n' "$(sed "s#$logs/##; s#\.[a-z]*\$##" <<<"$log")"
      tail -n 25 "$log" | sed "s#$PWD/##g"
      echo '```'
    done
    for log in "$logs"/benchmark/*.md; do
      [[ -s $log ]] || continue
      echo
      sed "s/^# .*/## $(basename "$log" .md)/" "$log"
    done
  } >"$result.tmp" && mv "$result.tmp" "$result"
}

# run_stage NAME: does it, and keeps what came of it.
run_stage() {
  local began=$SECONDS before status
  stage=$1
  before=$(cat "$logs/$stage.seconds" 2>/dev/null || echo 0)
  printf '%4d s  %s\n' "$SECONDS" "$stage" >&2
  : >"$logs/$stage.told"
  "stage_$stage" >"$logs/$stage.log" 2>&1
  status=$?
  case $status in
    0) echo passed ;;
    "$time_up") echo "**not finished**" ;;
    *) echo "**failed**" ;;
  esac >"$logs/$stage.outcome"
  echo $((before + SECONDS - began)) >"$logs/$stage.seconds"
  write
  return $status
}

# has HEADER: whether the compiler finds it, be it in third_party/.
has() {
  printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" |
    g++ -E -x c++ -Ithird_party/Catch2/include -Ithird_party/nlohmann_json/include - >/dev/null 2>&1
}

# find_cublas: cuBLASLt's header and libraries: the toolkit's, those of third_party/, or those that came with PyTorch. Sets
# `cublas` if CMake has to be told.
find_cublas() {
  local toolkit folder lib
  cublas=()
  toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
  for folder in "$toolkit"/include "$toolkit"/targets/*/include; do
    [[ -e $folder/cublasLt.h ]] && return
  done
  for folder in "$PWD/third_party/cublas" \
    $("$python" -c 'import nvidia; print(*(f"{p}/{n}" for p in nvidia.__path__ for n in ("cu13", "cu12", "cublas")))' 2>/dev/null); do
    [[ -e $folder/include/cublasLt.h ]] || continue
    lib=$(find "$folder/lib" -name 'libcublasLt.so*' 2>/dev/null | head -n 1)
    [[ -n $lib ]] || continue
    export CPATH=$folder/include${CPATH:+:$CPATH} LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    cublas=("-DCUDA_cublasLt_LIBRARY=$lib" "-DCUDA_cublas_LIBRARY=$(find "$folder/lib" -name 'libcublas.so*' | head -n 1)")
    tell "cuBLAS of $folder"
    return
  done
  return 1
}

# lacks_libraries PROGRAM: whether a shared library is not found.
lacks_libraries() { ldd "$programs/$1" 2>&1 | grep -q 'not found'; }

stage_packages() {
  local missing=() program
  device=1
  if nvidia-smi -L 2>/dev/null | grep -q GPU; then
    tell "$(nvidia-smi --query-gpu=name,memory.total,clocks.max.sm --format=csv,noheader | paste -sd ';')"
  else
    device=
    [[ " ${stages[*]} " =~ \ (test|benchmark|sanitize)\  ]] && missing+=("a GPU that nvidia-smi sees")
  fi
  if [[ -n $built_before ]]; then
    for program in test_cuda attend_gpu_benchmark; do
      if [[ ! -x $programs/$program ]]; then
        missing+=("$programs/$program")
      elif lacks_libraries "$program" && { ! find_cublas || lacks_libraries "$program"; }; then
        missing+=("library that $program needs: $(ldd "$programs/$program" | sed -n 's/ => not found//p' | paste -sd ' ')")
      fi
    done
  else
    for program in nvcc cmake g++; do
      command -v "$program" >/dev/null || missing+=("$program")
    done
    command -v ninja >/dev/null || command -v make >/dev/null || missing+=("ninja or make")
    has catch2/catch.hpp || has catch2/catch_test_macros.hpp || missing+=("Catch2")
    has nlohmann/json.hpp || missing+=("nlohmann-json")
    command -v nvcc >/dev/null && { find_cublas || missing+=("cublasLt.h with libcublasLt.so"); }
  fi
  if [[ " ${stages[*]} " == *" sanitize "* ]] && ! command -v compute-sanitizer >/dev/null; then
    missing+=("compute-sanitizer, without which name the stages but sanitize")
  fi
  has_torch=
  "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)' 2>/dev/null && has_torch=1
  [[ -n $has_torch ]] || tell "$python has no torch: attend alone is measured"
  ((${#missing[@]} == 0)) && return
  printf 'Missing: %s\n' "${missing[@]}"
  cat <<'MISSING'

Without a network packages come along with the checkout, in a folder third_party/, which git ignores, so that it has to be named
where only files of git are carried:

    third_party/Catch2/include/catch2/catch.hpp          Catch2 2.13, the one header
    third_party/nlohmann_json/include/nlohmann/json.hpp  nlohmann-json 3.9 or later, with the headers beside it
    third_party/cublas/include/cublasLt.h                with the headers beside it and lib/libcublas*.so*, of the toolkit's
                                                         version; needed where neither the toolkit nor PyTorch brings them

Or bring the programs, built elsewhere: see --programs.
MISSING
  return 1
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

# prepare_torch: fills the cache of torch.compile, beside other work.
prepare_torch() {
  [[ -n $has_torch && -n $device && -z $prepare && ! -e $logs/prepared ]] || return 0
  timeout -k 5 240 "$python" benchmarks/gpu/compare_gpu.py --prepare >"$logs/prepare.txt" 2>&1 &
  prepare=$!
}

# Goes on if a file does not compile. What the last call left half done is done again.
stage_build() {
  local go_on=(-k) native=ON architectures=${ATTEND_GPU_ARCHITECTURES:-} target status worst=0
  if [[ -n $built_before ]]; then
    tell "built before, in $programs"
    return
  fi
  [[ -n $device ]] || native=OFF # for whatever processor the GPU's machine has
  [[ -n $architectures ]] || architectures=$([[ -n $device ]] && echo native || echo 90)
  tell "for $architectures"
  prepare_torch # which takes minutes, so it begins at once
  packages=()
  package Catch2 Catch2::Catch2
  package nlohmann_json nlohmann_json::nlohmann_json
  command -v ninja >/dev/null && export CMAKE_GENERATOR=Ninja && go_on=(-k 0)
  limited cmake -S . -B "$build" "${packages[@]}" "${cublas[@]}" -DCMAKE_BUILD_TYPE=Release -DATTEND_CUDA=ON \
    "-DCMAKE_CUDA_ARCHITECTURES=$architectures" "-DATTEND_NATIVE=$native" -DATTEND_IO=ON -DATTEND_TEXT=OFF \
    -DATTEND_BUILD_TESTS=ON -DATTEND_BUILD_EXAMPLES=OFF -DATTEND_INSTALL=OFF -DATTEND_INSTALL_PACKAGES=OFF \
    -DFETCHCONTENT_FULLY_DISCONNECTED=ON || return
  for target in test_cuda attend_gpu_benchmark; do
    limited cmake --build "$build" --target "$target" --parallel "$(nproc)" -- "${go_on[@]}"
    status=$?
    ((status == time_up)) && return $time_up
    ((status == 0)) || worst=1
  done
  return $worst
}

# run_part FILE COMMAND...: the cases that the file names. Becomes FILE.passed or FILE.failed, or nothing if the time is up;
# but a part for which half a call is not enough has failed.
run_part() {
  local part=$1 limit status bad='SUMMARY: [1-9]|Invalid Filter|No test cases matched|No tests ran'
  shift
  limit=$(left)
  timeout -k 5 "$limit" "$@" "$programs/test_cuda" --input-file "$part" >"$part.log" 2>&1
  status=$?
  if ((status == 0)) && ! grep -qE "$bad" "$part.log"; then
    mv "$part.log" "$part.passed"
  elif ((status == 124 || status == 137)) && ((limit < total / 2)); then
    rm -f "$part.log"
  else
    mv "$part.log" "$part.failed"
  fi
}

# in_parts NAME PATTERN SIZE COMMAND...: the cases whose names fit the pattern, SIZE of them a process, as many processes at a
# time as there are cores, at most eight. COMMAND runs the program.
in_parts() {
  local into=$logs/$1 pattern=$2 size=$3 part pids=() pid running passed failed all
  shift 3
  [[ -x $programs/test_cuda ]] || { echo "there is no test_cuda" && return 1; }
  mkdir -p "$into"
  if [[ ! -s $into/chosen ]]; then
    "$programs/test_cuda" --list-test-names-only >"$into/names" || true # its status is how many there are
    [[ -s $into/names ]] || "$programs/test_cuda" --list-tests --verbosity quiet >"$into/names" || true
    grep -E "$pattern" "$into/names" | sed 's/[]",[\]/\\&/g' >"$into/chosen" # as Catch2 wants names quoted
    [[ -s $into/chosen ]] || { echo "no case of test_cuda is named $pattern" && return 1; }
    all=$(wc -l <"$into/chosen")
    split -a 4 -d --elide-empty-files -n "r/$(((all + size - 1) / size))" "$into/chosen" "$into/part."
  fi
  for part in "$into"/part.????; do
    [[ -e $part.passed || -e $part.failed ]] && continue
    while ((${#pids[@]} >= most_processes)); do
      wait -n "${pids[@]}"
      running=()
      for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null && running+=("$pid"); done
      pids=("${running[@]+"${running[@]}"}")
    done
    (($(left) > 5)) || break
    run_part "$part" "$@" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
  all=$(cat "$into"/part.???? | wc -l)
  passed=$(for part in "$into"/part.????; do [[ -e $part.passed ]] && cat "$part"; done | wc -l)
  failed=$(for part in "$into"/part.????; do [[ -e $part.failed ]] && cat "$part"; done | wc -l)
  tell "${into##*/}: of $all cases $passed in parts that passed, $failed in parts that failed"
  ((passed + failed == all)) || return $time_up
  ((failed == 0)) || return 1
}

stage_test() {
  in_parts test . 12 env ATTEND_REFERENCE_DIR="$PWD/tests/reference/data"
}

stage_benchmark() {
  local into=$logs/benchmark part limit status worst=0
  [[ -x $programs/attend_gpu_benchmark ]] || { echo "there is no attend_gpu_benchmark" && return 1; }
  mkdir -p "$into"
  prepare_torch
  if [[ -n $prepare ]]; then
    wait "$prepare" && touch "$logs/prepared"
    prepare=
  fi
  for part in kernels step decode notebooks; do
    if [[ ! -e $into/$part.passed && ! -e $into/$part.failed ]]; then
      limit=$(left)
      ((limit > 60)) || return $time_up
      # What it began last may take a while.
      timeout -k 5 "$limit" "$python" benchmarks/gpu/compare_gpu.py --program "$programs/attend_gpu_benchmark" --rounds 3 \
        --seconds 0.3 --only ceilings --only "$part" --limit $((limit - 40)) --out "$into/$part.md" >"$into/$part.log" 2>&1
      status=$?
      if ((status == 124 || status == 137)) || grep -q 'the time was up' "$into/$part.md" 2>/dev/null; then
        ((limit < total / 2)) && return $time_up
        status=1
      fi
      mv "$into/$part.log" "$into/$part.$( ((status == 0)) && echo passed || echo failed)"
    fi
    [[ -e $into/$part.failed ]] && worst=1
    tell "$part $([[ -e $into/$part.failed ]] && echo failed || echo measured)"
  done
  return $worst
}

stage_sanitize() {
  local memcheck racecheck
  # Tests ask for more memory than there is, on purpose.
  in_parts memcheck '^cuda: ' 1 compute-sanitizer --tool memcheck --error-exitcode 9 --report-api-errors no
  memcheck=$?
  ((memcheck == time_up)) && return $time_up
  in_parts racecheck '^cuda: ' 1 compute-sanitizer --tool racecheck --error-exitcode 9
  racecheck=$?
  ((racecheck == time_up || memcheck == 0)) && return $racecheck
  return 1
}

mkdir -p "$out" "$logs" || exit 1
result=$(cd "$out" && pwd)/gpu.md
# What came of other sources says nothing of these.
now=$({
  find CMakeLists.txt cmake include tests benchmarks -type f ! -path 'benchmarks/results/*' ! -name '*.pyc' -print0 | sort -z |
    xargs -0 sha256sum
  echo "$built_before $programs"
} | sha256sum)
if [[ $now != "$(cat "$logs/sources" 2>/dev/null)" ]]; then
  rm -rf "${logs:?}" && mkdir -p "$logs"
  echo "$now" >"$logs/sources"
fi
export TORCHINDUCTOR_CACHE_DIR=$build/torchinductor

stages=()
for stage in "${order[@]}"; do
  outcome=$(cat "$logs/$stage.outcome" 2>/dev/null)
  if [[ " ${named[*]:-} " == *" $stage "* ]]; then
    if [[ $outcome == passed || $outcome == *failed* ]]; then # anew
      rm -rf "$logs/$stage".* "${logs:?}/$stage"
      [[ $stage == sanitize ]] && rm -rf "$logs/memcheck" "$logs/racecheck"
    fi
    stages+=("$stage")
  elif ((${#named[@]} == 0)) && [[ $outcome != passed && $outcome != *failed* ]]; then
    stages+=("$stage")
  fi
done
[[ ${stages[0]:-} == packages ]] || stages=(packages "${stages[@]+"${stages[@]}"}")

worst=0
for stage in "${stages[@]}"; do
  run_stage "$stage"
  status=$?
  if ((status != 0 && status != time_up)); then
    worst=1
    [[ $stage == packages ]] && cat "$logs/packages.log" >&2 && break
  elif ((status == time_up)); then
    ((worst == 0)) && worst=$time_up
    break
  fi
done
[[ -n $prepare ]] && kill "$prepare" 2>/dev/null
((${#named[@]} == 0 && worst == 0)) && grep -qs failed "$logs"/*.outcome && worst=1
cat "$result"
((worst == time_up)) && echo "The time was up: call again, to go on." >&2
exit $worst
