#!/bin/sh
# check_instructions.sh OBJDUMP PROGRAM: fails if a function that is not a kernel's for AVX2, AVX-512 or AMX has such instructions in a
# program compiled for any x86-64 processor. It would stop on an older one, and if it is the library's or the standard library's, it
# would take the place of all functions of its name. Ends with 77 if there is no objdump.
[ -x "$1" ] || { echo "objdump was not found"; exit 77; }
"$1" -d --no-show-raw-insn "$2" | awk '
  /^[0-9a-f]+ <.*>:$/ { name = $2; told = 0; next }
  /\t(ldtilecfg|tile[a-z]+|tdp[a-z0-9]+)( |$)/ {
    if (name !~ /amx/) { print name " has " $0; ++wrong }
    next
  }
  /\t([{]vex[}] )?vpdpbusd/ && !(name ~ /vnni|amx/) { print name " has " $0; ++wrong; next }
  / v[a-z0-9]+ |\tv[a-z0-9]+ / {
    ++wide
    if (told || name ~ /avx512/ || (name ~ /avx2/ && !/%zmm|%k[0-7]/)) next
    told = 1
    print name " has " $0
    ++wrong
  }
  END {
    if (wrong) exit 1
    if (!wide) { print "no kernel for AVX2 or AVX-512 was found"; exit 1 }
  }'
