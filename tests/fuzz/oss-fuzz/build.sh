#!/bin/bash -eu
# What OSS-Fuzz runs in its container: every target with its corpus and its dictionary into $OUT.
cmake -S "$SRC/attend" -B "$WORK/build" \
  -DCMAKE_BUILD_TYPE=None \
  -DATTEND_FUZZ=ON -DATTEND_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" \
  -DATTEND_BUILD_BENCHMARKS=OFF -DATTEND_INSTALL=OFF -DATTEND_INSTALL_PACKAGES=OFF \
  -DFETCHCONTENT_BASE_DIR="$SRC/fetched"
cmake --build "$WORK/build" --target fuzz -j"$(nproc)"

fuzz=$SRC/attend/tests/fuzz
for program in "$WORK"/build/bin/fuzz_*; do
  name=$(basename "$program")
  target=${name#fuzz_}
  [[ $target != seeds ]] || continue
  cp "$program" "$OUT/"
  (cd "$fuzz/corpus/$target" && zip -q "$OUT/${name}_seed_corpus.zip" -- *)
  [[ ! -e $fuzz/dictionaries/$target.dict ]] || cp -L "$fuzz/dictionaries/$target.dict" "$OUT/$name.dict"
done
