#pragma once

#include <string>
#include <vector>

namespace test {

using Lines = std::vector<std::string>;

inline const Lines hypotheses = {"The quick brown fox, aged 3.5 years, jumped over 1,000 lazy dogs.",
                                 "It's raining in Zürich & nobody cares!", "I never said that.", ""};
inline const Lines references = {"The quick brown fox, aged 3.5 years, jumps over 1,000 lazy dogs.",
                                 "It is raining in Zürich, and nobody cares!", "I have never said that.", "Nothing."};

}  // namespace test
