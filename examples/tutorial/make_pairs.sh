#!/bin/sh
# Writes sentence pairs to practise with, `english<TAB>spanish`, to standard output. In Spanish the adjective stands after its
# noun and agrees with it, so a translation word by word is wrong.
LC_ALL=C awk 'BEGIN {
  n = split("dog:el:perro cat:el:gato boy:el:chico bird:el:pájaro girl:la:chica cow:la:vaca duck:la:pata queen:la:reina", noun, " ")
  a = split("small:pequeñ red:roj old:viej black:negr tired:cansad", adjective, " ")
  v = split("sees:ve wants:quiere hears:oye finds:encuentra", verb, " ")
  for (i = 1; i <= n; ++i) for (j = 0; j <= a; ++j) for (k = 1; k <= v; ++k) for (l = 1; l <= n; ++l) {
    m = (3 * i + 5 * k + 2 * l + j) % (a + 1)
    split(verb[k], word, ":")
    phrase(noun[i], j); english = en " " word[1]; spanish = es " " word[2]
    phrase(noun[l], m); print english " " en "\t" spanish " " es
  }
}
function phrase(text, which,    part, quality) {
  split(text, part, ":"); split(adjective[which], quality, ":")
  en = "the " (which ? quality[1] " " : "") part[1]
  es = part[2] " " part[3] (which ? " " quality[2] (part[2] == "el" ? "o" : "a") : "")
}'
